package e2e_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// TestEndlessVisitsDoNotHoldAShutdown: the hold of a visit ends when the server
// closes, and the client gets the link, with which another replica can go on.
func TestEndlessVisitsDoNotHoldAShutdown(t *testing.T) {
	srv, watched := mustServe(t, nil)
	holding := make(chan bool)
	var once sync.Once
	server.AddRawTool(srv, server.Tool{Name: "visit"},
		func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
			if err := roundtrip.AskURL(ctx, "login", "Sign in", "https://id.example/"); err != nil {
				return nil, err
			}
			ctx = roundtrip.WatchWaiting(ctx, func(waiting bool) {
				if waiting {
					once.Do(func() { close(holding) })
				}
			})
			return server.Text("signed in"),
				roundtrip.Await(ctx, "login",
					func(context.Context) (bool, error) { return false, nil })
		})
	handler := servertest.NewHandler(t, srv, nil)
	w := &wire{t: t, url: listen(t, handler), watch: watched,
		client: &http.Client{Transport: transport(t), Timeout: patience}}
	first := w.send(leg{target: "visit"}).wantAsked("login")
	answered := make(chan *reply)
	go func() {
		answered <- w.send(leg{target: "visit",
			more: first.answered(`{"login":{"action":"accept"}}`)})
	}()
	<-holding
	if err := handler.Shutdown(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if got := (<-answered).wantAsked("login"); !strings.Contains(string(got.body),
		"Not finished yet. Sign in") {
		t.Errorf("got %s", got.body)
	}
}
