package serverhttp_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// TestLegacyEndOfGoroutine: a handler that ends its goroutine, as FailNow of a
// test does, is answered for, and its session and the handler can end.
func TestLegacyEndOfGoroutine(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	server.AddRawTool(srv, server.Tool{Name: "exit"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
		runtime.Goexit()
		return nil, nil
	})
	ts, h := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got := read(t, c.do(ctx, "POST", toolCall(1, "exit"))); got.code() != -32603 || string(got.ID) != "1" {
		t.Errorf("got status %d: %s", got.status, got.body)
	}
	if err := h.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// TestServerCloseEndsStreams: when the server has been closed nothing can be said
// on the streams of sessions any more, so they end, whoever forgot the handler.
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
			srv, _ := legacyServer(t, nil)
			ts, _ := serve(t, srv, nil)
			c := openSession(t, ts, "2025-11-25")
			get := c.listen("")
			addTool(srv, "new")
			get.expect("list_changed")
			if tc.resume {
				get = c.listen(get.LastEventID())
			}
			if err := tc.end(srv); err != nil {
				t.Fatal(err)
			}
			get.end()
			if got := read(t, c.do(t.Context(), "GET", "")); got.status != 503 {
				t.Errorf("a new stream: got status %d: %s", got.status, got.body)
			}
		})
	}
}
