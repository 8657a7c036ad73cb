package mcpgo_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

// TestEndOfASession ends a session in each way while a request runs.
func TestEndOfASession(t *testing.T) {
	for name, end := range map[string]func(c *fakeCore, s *mcpserver.MCPServer){
		"by the core": func(c *fakeCore, _ *mcpserver.MCPServer) { _ = c.session.Close() },
		"by the peer": func(c *fakeCore, _ *mcpserver.MCPServer) { _ = c.peer.Close() },
		"by the server": func(_ *fakeCore, s *mcpserver.MCPServer) {
			s.UnregisterSession(context.Background(), "s1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			unregistered := 0
			hooks := &mcpserver.Hooks{}
			hooks.AddOnUnregisterSession(func(ctx context.Context, _ mcpserver.ClientSession) {
				unregistered++
			})
			s := newServer(mcpserver.WithHooks(hooks))
			var c *fakeCore
			var cause error
			addTool(s, "end", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
				end(c, s)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return "done", nil
			})
			c = open(t, s, nil)
			if c.session.Err() != nil {
				t.Error("an open session has the error", c.session.Err())
			}
			for _, tool := range []string{"end", "later"} {
				_, err := c.send(t.Context(), &fakeBack{}, protocol.MethodCallTool,
					`{"name":"`+tool+`"}`)
				if !errors.Is(err, protocol.ErrSessionGone) {
					t.Errorf("%s: %v", tool, err)
				}
			}
			<-c.session.Done()
			for what, err := range map[string]error{
				"Err": c.session.Err(), "the context's cause": cause,
				"Notify": c.session.Notify(t.Context(), &protocol.Notification{Method: "x"}),
			} {
				if !errors.Is(err, protocol.ErrSessionGone) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := c.session.Close(); err != nil || unregistered != 1 {
				t.Errorf("closed again: %v, unregistered %d times", err, unregistered)
			}
			if err := s.SendNotificationToSpecificClient("s1", "x", nil); err == nil {
				t.Error("the session is still registered")
			}
		})
	}
}

func TestOpenSessionFails(t *testing.T) {
	hooks := &mcpserver.Hooks{}
	refuse := false
	hooks.AddOnRequestInitialization(func(context.Context, any, any) error {
		if refuse {
			return errors.New("not today")
		}
		return nil
	})
	c := open(t, newServer(mcpserver.WithHooks(hooks)), nil)
	initialize := func(id string) (protocol.LegacySession, *protocol.Response, error) {
		return c.peer.OpenSession(
			hosted.WithCaller(context.Background(), &hosted.Caller{SessionID: id}),
			&protocol.Request{ID: protocol.IntID(0), Method: protocol.MethodInitialize,
				Params: []byte(initializeParams)}, &fakeBack{})
	}
	if session, _, err := initialize("s1"); session != nil ||
		!errors.Is(err, mcpserver.ErrSessionExists) {
		t.Errorf("a second session with the same id: %v", err)
	}
	if c.session.Err() != nil {
		t.Error("it has ended the first one")
	}
	refuse = true
	session, response, err := initialize("s2")
	if session != nil || err != nil || response.Error.Message != "not today" {
		t.Errorf("refused: %v %v", response, err)
	}
	refuse = false
	_ = c.peer.Close()
	if _, _, err := initialize("s3"); !errors.Is(err, protocol.ErrSessionGone) {
		t.Errorf("after Close: %v", err)
	}
}

func TestHandleNeedsAWayBack(t *testing.T) {
	if _, err := open(t, newServer(), nil).session.Handle(t.Context(),
		&protocol.Request{ID: protocol.IntID(1), Method: protocol.MethodPing}, nil); err == nil {
		t.Error("Handle without a way back has no error")
	}
}

func TestFurtherPeersOfAServerChangeNothing(t *testing.T) {
	shared := &mcpserver.Hooks{}
	calls := 0
	shared.AddBeforeAny(func(context.Context, any, mcp.MCPMethod, any) { calls++ })
	one, other := newServer(mcpserver.WithHooks(shared)), newServer(mcpserver.WithHooks(shared))
	addTool(one, "tool", func(context.Context, mcp.CallToolRequest) (string, error) {
		return "", nil
	})
	for range 10 {
		mcpgo.Peer(one)
		mcpgo.Peer(other)
	}
	for _, s := range []*mcpserver.MCPServer{one, other} {
		if n := len(s.GetHooks().OnBeforeAny); n != 2 {
			t.Errorf("a server has %d hooks before any request, want 2", n)
		}
	}
	if n := len(shared.OnBeforeAny); n != 1 {
		t.Errorf("the author's own have become %d", n)
	}
	c := open(t, one, nil)
	calls = 0
	c.call(&fakeBack{}, "tool")
	if calls != 1 {
		t.Errorf("the author's hook was called %d times", calls)
	}
}

// TestServersAndSessionsAreFreed opens sessions that send, ask and change lists. Goroutines that
// are left fail the package.
func TestServersAndSessionsAreFreed(t *testing.T) {
	s := newServer()
	addTool(s, "tool", func(ctx context.Context, _ mcp.CallToolRequest) (string, error) {
		if _, err := s.RequestElicitation(ctx, form("Why?")); err != nil {
			return "", err
		}
		s.SendNotificationToAllClients("x/all", nil)
		return "", progress(s, ctx, 1)
	})
	peer := mcpgo.Peer(s)
	before := runtime.NumGoroutine()
	for n := range 1000 {
		ctx := hosted.WithCaller(context.Background(),
			&hosted.Caller{SessionID: fmt.Sprint(n)})
		session, _, err := peer.OpenSession(ctx, &protocol.Request{ID: protocol.IntID(0),
			Method: protocol.MethodInitialize, Params: []byte(initializeParams)}, &fakeBack{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = session.Handle(ctx, &protocol.Request{ID: protocol.IntID(1),
			Method: protocol.MethodCallTool, Params: []byte(`{"name":"tool"}`)},
			answering(`{"action":"accept"}`))
		if err == nil {
			err = session.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if after := runtime.NumGoroutine(); after > before+100 {
		t.Errorf("%d goroutines became %d", before, after)
	}
	if n := len(s.GetHooks().OnBeforeAny); n != 1 {
		t.Errorf("%d hooks", n)
	}
}
