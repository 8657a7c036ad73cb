package serverhttp_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestShutdownIdle(t *testing.T) {
	ts, h := serve(t, newServer(t, nil), nil)
	for range 2 {
		noError(t, h.Shutdown(t.Context()))
	}
	got := do(t, ts, "POST", headers("server/discover", ""), body("server/discover", ""))
	if got.status != 503 || got.header.Get("Retry-After") == "" || got.code() != 23223 ||
		string(got.ID) != "7" ||
		!strings.Contains(string(got.body), `"the server is closing, call again"`) ||
		!strings.Contains(string(got.body), `"retryAfterMs":1000`) {
		t.Errorf("got status %d, Retry-After %q: %s", got.status, got.header.Get("Retry-After"),
			got.body)
	}
}

func TestShutdownWaits(t *testing.T) {
	gate := newGate()
	ts, h := serve(t, gate.server(t), nil)
	_, done := gate.call(t, ts)
	ended := make(chan error, 1)
	go func() { ended <- h.Shutdown(t.Context()) }()
	for do(t, ts, "POST", headers("server/discover", ""),
		body("server/discover", "")).status != 503 {
	}
	select {
	case err := <-ended:
		t.Fatalf("Shutdown does not wait: %v", err)
	default:
	}
	close(gate.open)
	wantText(t, "the result", <-done, "opened")
	noError(t, <-ended)
}

func TestShutdownCancels(t *testing.T) {
	gate := newGate()
	ts, h := serve(t, gate.server(t), nil)
	_, done := gate.call(t, ts)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, "the error", h.Shutdown(ctx), context.Canceled)
	wantIs(t, "the handler's context ended with", <-gate.ended, serverhttp.ErrShutdown)
	// The connected client gets the handler's result.
	wantText(t, "the result", <-done, "ended")
}

// The client, session and handler survive a handler that ends its goroutine, like FailNow.
func TestLegacyEndOfGoroutine(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	addTool(srv, "exit", func(context.Context, *server.ToolCall) (toolOutcome, error) {
		runtime.Goexit()
		return nil, nil
	})
	ts, h := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got := read(t, c.do(ctx, "POST", toolCall(1, "exit"))); got.code() != -32603 ||
		string(got.ID) != "1" {
		t.Errorf("got status %d: %s", got.status, got.body)
	}
	noError(t, h.Shutdown(ctx))
}

// A closed server cannot use the streams of sessions, so they end without a handler's shutdown.
func TestServerCloseEndsStreams(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*server.Server) error

		resume bool
	}{
		{"close", (*server.Server).Close, false},
		{"close, resumed", (*server.Server).Close, true},
		{"shutdown", func(srv *server.Server) error { return srv.Shutdown(t.Context()) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, srv, _ := startSession(t, "2025-11-25")
			get := c.listen("")
			addTool(srv, "new", says("x"))
			get.expect("list_changed")
			if tc.resume {
				get = c.listen(get.LastEventID())
			}
			noError(t, tc.end(srv))
			get.end()
			wantStatus(t, "a new stream", read(t, c.do(t.Context(), "GET", "")), 503)
		})
	}
}

// A request on a connection that is just being closed may or may not have run.
func TestConnectionsCloseWithTheirResponsesWhileDraining(t *testing.T) {
	ts, h := serve(t, newServer(t, nil), nil)
	ask := func() bool {
		req, err := http.NewRequestWithContext(t.Context(), "POST", ts.URL,
			strings.NewReader(body("server/discover", "")))
		noError(t, err)
		req.Header = headers("server/discover", "")
		resp, err := ts.Client().Do(req)
		noError(t, err)
		_ = resp.Body.Close()
		return resp.Close
	}
	if ask() {
		t.Error("the connection closes before anything drains")
	}
	h.RefuseNew()
	if !ask() {
		t.Error("the connection stays open")
	}
}
