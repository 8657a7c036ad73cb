//lint:file-ignore SA1019 pings and roots are deprecated, and supported for as long as they exist

package gosdk_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
	"github.com/rondo-mcp/rondo/server/hosted/gosdk"
)

func TestInitializeThatCannotBeRead(t *testing.T) {
	p := gosdk.Peer(newServer(nil), nil)
	for _, params := range []string{``, `null`, `[]`, `{"capabilities":7}`} {
		request := hostedtest.Initialize(noCapabilities)
		request.Params = []byte(params)
		session, response, err := p.OpenSession(t.Context(), request, &back{})
		if session != nil || err == nil && response.Error == nil {
			t.Errorf("%s: a session was opened", params)
		}
	}
}

func TestPingsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&mcp.ServerOptions{KeepAlive: time.Second})
		addTool(s, "ping", func(ctx context.Context, req *toolRequest) (*toolResult, error) {
			return textf("pong"), req.Session.Ping(ctx, nil)
		})
		c := open(t, s)
		time.Sleep(time.Minute)
		b := &back{}
		want(t, "after a minute", c.Call("ping", b), "pong")
		want(t, "sent", b.List()+c.Back.List(), "")
		_ = c.Session.Close()
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
	addTool(s, "x", says("x"))
	c := open(t, s)
	_, _ = c.Send(t.Context(), "tools/call", `{"name":"x","requestState":"x"}`, nil)
	_ = c.Session.Notify(t.Context(),
		&protocol.Notification{Method: "notifications/roots/list_changed"})
	want(t, "calls", calls, `s1 calling "roots/list": nobody to ask;roots;`)
}

func BenchmarkSession(b *testing.B) {
	p := gosdk.Peer(newServer(nil), nil)
	for b.Loop() {
		session, _, err := p.OpenSession(b.Context(),
			hostedtest.Initialize(noCapabilities), &back{})
		noError(b, err)
		_ = session.Notify(b.Context(), &protocol.Notification{Method: protocol.NotifyInitialized})
		_ = session.Close()
	}
}

func BenchmarkCall(b *testing.B) {
	s := newServer(nil)
	addTool(s, "x", says("x"))
	c := open(b, s)
	for b.Loop() {
		if got := c.Call("x", nil); got != "x" {
			b.Fatal(got)
		}
	}
}
