package mcpgo_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/mcpgo"
)

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
		return c.Peer.OpenSession(
			hosted.WithCaller(context.Background(), &hosted.Caller{SessionID: id}),
			hostedtest.Initialize(declared), &back{})
	}
	if session, _, err := initialize("s1"); session != nil ||
		!errors.Is(err, mcpserver.ErrSessionExists) {
		t.Errorf("a second session with the same id: %v", err)
	}
	if c.Session.Err() != nil {
		t.Error("it has ended the first one")
	}
	refuse = true
	session, response, err := initialize("s2")
	if session != nil || err != nil || response.Error.Message != "not today" {
		t.Errorf("refused: %v %v", response, err)
	}
	refuse = false
	_ = c.Peer.Close()
	if _, _, err := initialize("s3"); !errors.Is(err, protocol.ErrSessionGone) {
		t.Errorf("after Close: %v", err)
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
	c.Call("tool", &back{})
	if calls != 1 {
		t.Errorf("the author's hook was called %d times", calls)
	}
}
