package e2e_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// TestVisitsAreWaitedFor: on every way a person is sent to a link once, the call
// waits until they are done there, and then goes on; in a session of 2025-11-25
// the client hears of the end of the visit under its id.
func TestVisitsAreWaitedFor(t *testing.T) {
	ways := map[string]func(t *testing.T, srv *server.Server, opts client.Options) (*client.Client,
		func() []wiretest.Message){
		"json": eraOverHTTP, "events": eraOverHTTP, "lines": eraOverLines,
		"in process": func(t *testing.T, srv *server.Server, opts client.Options) (*client.Client,
			func() []wiretest.Message) {
			peer := &recordedPeer{Peer: srv, t: t}
			c, err := client.New(peer, &opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c, peer.log.Messages
		},
	}
	for name, open := range ways {
		for _, era := range []protocol.Era{protocol.Modern, protocol.Legacy} {
			if name == "in process" && era == protocol.Legacy {
				continue // it has no sessions
			}
			t.Run(name+"/"+era.String(), func(t *testing.T) {
				t.Parallel()
				var mw []server.Middleware
				if name == "events" {
					mw = append(mw, reportProgress)
				}
				srv, _ := mustServe(t, &server.Options{Middleware: mw})
				callback := make(chan struct{}) // what the page at the link would do
				var looks, asked atomic.Int32
				server.AddRawTool(srv, server.Tool{Name: "visit"},
					func(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome,
						error) {
						if err := roundtrip.AskURL(ctx, "login", "Sign in",
							"https://id.example/"); err != nil {
							return nil, err
						}
						err := roundtrip.Await(ctx, "login",
							func(ctx context.Context) (bool, error) {
								if looks.Add(1) == 2 {
									close(callback)
								}
								select {
								case <-callback:
									return true, nil
								default:
									return false, nil
								}
							})
						if err != nil {
							return nil, err
						}
						return server.Text("signed in"), nil
					})
				opts := client.Options{Era: era,
					ElicitURL: func(context.Context, *client.URLQuestion) (*protocol.ElicitResult,
						error) {
						asked.Add(1)
						return &protocol.ElicitResult{Action: protocol.ActionAccept}, nil
					}}
				if mw != nil {
					opts.Progress = func(context.Context, *protocol.Progress) {}
				}
				c, said := open(t, srv, opts)
				result, err := c.CallTool(within(t, patience), "visit", nil)
				if err != nil || result.IsError || textOf(result.Content) != "signed in" ||
					asked.Load() != 1 {
					t.Fatalf("got %v, %v, asked %d times", result, err, asked.Load())
				}
				told := 0
				for _, m := range said() {
					if strings.Contains(string(m.Body), protocol.NotifyElicitationCompleted) {
						told++
					}
				}
				if want := map[protocol.Era]int{protocol.Legacy: 1}[era]; told != want {
					t.Errorf("told of the end %d times, want %d", told, want)
				}
			})
		}
	}
}

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
