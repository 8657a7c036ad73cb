//lint:file-ignore SA1019 pings and roots are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

func countSessions(s *mcp.Server) (n int) {
	for range s.Sessions() {
		n++
	}
	return n
}

func TestSessionsThatTheServerCloses(t *testing.T) {
	s := newServer(nil)
	closing, goOn := make(chan struct{}), make(chan struct{})
	addTool(s, "close", func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		go func() {
			close(closing)
			_ = req.Session.Close() // waits for the handlers
		}()
		<-closing
		<-goOn
		return textf("closed"), nil
	})
	c := open(t, s)
	if err := c.session.Err(); err != nil {
		t.Error(err)
	}
	answered := make(chan error)
	go func() {
		_, err := c.send(context.Background(), "tools/call", `{"name":"close"}`, nil)
		answered <- err
	}()
	<-closing
	close(goOn)
	running := <-answered
	<-c.session.Done()
	_, later := c.send(t.Context(), "tools/call", `{"name":"close","requestState":"x"}`, nil)
	_, latest := c.send(t.Context(), "tools/list", `{}`, nil)
	for what, err := range map[string]error{"later": later, "latest": latest,
		"a notification": c.session.Notify(t.Context(), initialized()),
		"another": c.session.Notify(t.Context(),
			&protocol.Notification{Method: "notifications/progress"}),
		"the session": c.session.Err()} {
		if !errors.Is(err, protocol.ErrSessionGone) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	// The handler may have been answered before the SDK closed the session.
	if running != nil && !errors.Is(running, protocol.ErrSessionGone) {
		t.Errorf("running: got %v", running)
	}
}

func TestClosedSessionsEndTheirHandlers(t *testing.T) {
	for _, byPeer := range []bool{false, true} {
		s := newServer(nil)
		began := make(chan struct{}, 2)
		addTool(s, "wait", func(ctx context.Context, _ *toolRequest) (*mcp.CallToolResult, error) {
			began <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		p := gosdk.Peer(s, nil)
		c := openAt(t, p, &hosted.Caller{Version: protocol.V20260728}, noCapabilities)
		answered := make(chan error)
		for _, params := range []string{`{"name":"wait"}`, `{"name":"wait","requestState":"x"}`} {
			go func() {
				_, err := c.send(context.Background(), "tools/call", params, nil)
				answered <- err
			}()
			<-began
		}
		if n := countSessions(s); n != 2 { // one for handlers that return questions
			t.Errorf("%d sessions", n)
		}
		if byPeer {
			_ = p.Close()
		} else {
			_ = c.session.Close()
		}
		for range 2 {
			if err := <-answered; !errors.Is(err, protocol.ErrSessionGone) {
				t.Errorf("got %v", err)
			}
		}
		if n := countSessions(s); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		_, _, err := p.OpenSession(t.Context(), initialize(noCapabilities), &back{})
		if byPeer != errors.Is(err, protocol.ErrSessionGone) || countSessions(s) > 1 {
			t.Errorf("after the end: %v", err)
		}
		_ = p.Close()
	}
}

func TestInitializeThatCannotBeRead(t *testing.T) {
	p := gosdk.Peer(newServer(nil), nil)
	for _, params := range []string{``, `null`, `[]`, `{"capabilities":7}`} {
		request := initialize(noCapabilities)
		request.Params = []byte(params)
		session, response, err := p.OpenSession(t.Context(), request, &back{})
		if session != nil || err == nil && response.Error == nil {
			t.Errorf("%s: a session was opened", params)
		}
	}
	session := open(t, newServer(nil)).session
	if _, err := session.Handle(t.Context(), initialize("{}"), nil); err == nil {
		t.Error("a request without a way back was handled")
	}
}

func TestPingsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&mcp.ServerOptions{KeepAlive: time.Second})
		addTool(s, "ping", func(ctx context.Context, req *toolRequest) (
			*mcp.CallToolResult, error) {
			return textf("pong"), req.Session.Ping(ctx, nil)
		})
		c := open(t, s)
		time.Sleep(time.Minute)
		b := &back{}
		want(t, "after a minute", c.call("ping", b), "pong")
		want(t, "sent", b.list()+c.back.list(), "")
		_ = c.session.Close()
	})
}

func TestInitializedHandlersRunOnce(t *testing.T) {
	calls := ""
	s := newServer(&mcp.ServerOptions{
		InitializedHandler: func(ctx context.Context, req *mcp.InitializedRequest) {
			_, err := req.Session.ListRoots(ctx, nil)
			calls += fmt.Sprint(hosted.CallerFrom(ctx).SessionID, " ", err, ";")
		},
		RootsListChangedHandler: func(context.Context, *mcp.RootsListChangedRequest) {
			calls += "roots;"
		},
	})
	addTool(s, "x", func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
		return textf("x"), nil
	})
	c := open(t, s)
	_, _ = c.send(t.Context(), "tools/call", `{"name":"x","requestState":"x"}`, nil)
	_ = c.session.Notify(t.Context(),
		&protocol.Notification{Method: "notifications/roots/list_changed"})
	want(t, "calls", calls, `1 calling "roots/list": nobody to ask;roots;`)
}

func TestManySessionsLeaveNothing(t *testing.T) {
	testkit.CheckLeaks(t)
	s := newServer(nil)
	addTool(s, "x", func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
		return textf("x"), nil
	})
	p := gosdk.Peer(s, nil)
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for i := range 250 {
				c := openAt(t, p, &hosted.Caller{}, noCapabilities)
				_, _ = c.send(t.Context(), "tools/call",
					[]string{`{"name":"x"}`, `{"name":"x","requestState":"x"}`}[i%2], nil)
				_ = c.session.Close()
			}
		})
	}
	users.Wait()
	if n := countSessions(s); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func BenchmarkSession(b *testing.B) {
	p := gosdk.Peer(newServer(nil), nil)
	for b.Loop() {
		session, _, err := p.OpenSession(b.Context(), initialize(noCapabilities), &back{})
		if err != nil {
			b.Fatal(err)
		}
		_ = session.Notify(b.Context(), initialized())
		_ = session.Close()
	}
}

func BenchmarkCall(b *testing.B) {
	s := newServer(nil)
	addTool(s, "x", func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
		return textf("x"), nil
	})
	c := open(b, s)
	for b.Loop() {
		if got := c.call("x", nil); got != "x" {
			b.Fatal(got)
		}
	}
}
