package serverhttp_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/sse"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestShutdownIdle(t *testing.T) {
	ts, h := serve(t, newServer(t, nil), nil)
	for range 2 {
		if err := h.Shutdown(t.Context()); err != nil {
			t.Errorf("got %v, want nil", err)
		}
	}
	got := do(t, ts, "POST", headers("server/discover", ""), body("server/discover", ""))
	if got.status != 503 || got.header.Get("Retry-After") == "" || got.code() != 23223 || string(got.ID) != "7" ||
		!strings.Contains(string(got.body), `"the server is closing, call again"`) || !strings.Contains(string(got.body), `"retryAfterMs":1000`) {
		t.Errorf("got status %d, Retry-After %q: %s", got.status, got.header.Get("Retry-After"), got.body)
	}
}

func TestShutdownWaits(t *testing.T) {
	gate := newGate()
	ts, h := serve(t, gate.server(t), nil)
	done := make(chan *reply, 1)
	go func() { done <- do(t, ts, "POST", headers("tools/call", "gate"), body("tools/call", `"name":"gate"`)) }()
	<-gate.entered
	ended := make(chan error, 1)
	go func() { ended <- h.Shutdown(t.Context()) }()
	for do(t, ts, "POST", headers("server/discover", ""), body("server/discover", "")).status != 503 {
	}
	select {
	case err := <-ended:
		t.Fatalf("Shutdown does not wait: %v", err)
	default:
	}
	close(gate.open)
	if got := <-done; got.status != 200 || got.Result.Content[0].Text != "opened" {
		t.Errorf("got status %d: %s", got.status, got.body)
	}
	if err := <-ended; err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestShutdownCancels(t *testing.T) {
	gate := newGate()
	ts, h := serve(t, gate.server(t), nil)
	done := make(chan *reply, 1)
	go func() { done <- do(t, ts, "POST", headers("tools/call", "gate"), body("tools/call", `"name":"gate"`)) }()
	<-gate.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	if err := <-gate.ended; !errors.Is(err, serverhttp.ErrShutdown) {
		t.Errorf("the handler's context ended with %v, want ErrShutdown", err)
	}
	// The client is still there and gets what the handler made of it.
	if got := <-done; got.status != 200 || got.Result.Content[0].Text != "ended" {
		t.Errorf("got status %d: %s", got.status, got.body)
	}
}

// TestShutdownEndsSubscriptions holds that a stream without an end of its own
// neither delays the end nor is cut off.
func TestShutdownEndsSubscriptions(t *testing.T) {
	ts, h := serve(t, newServer(t, nil), nil)
	response, err := ts.Client().Do(newRequest(t, ts, "POST", headers("subscriptions/listen", ""),
		body("subscriptions/listen", `"notifications":{"toolsListChanged":true}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := sse.NewReader(response.Body, 0)
	if event, err := reader.Next(); err != nil || !strings.Contains(string(event.Data), "acknowledged") {
		t.Fatalf("got %s, %v, want the acknowledgment", event.Data, err)
	}
	if err := h.Shutdown(t.Context()); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if event, err := reader.Next(); err != nil || !strings.Contains(string(event.Data), `"id":7,"result"`) {
		t.Errorf("got %s, %v, want the response", event.Data, err)
	}
	if _, err := reader.Next(); err != io.EOF {
		t.Errorf("got %v, want the end", err)
	}
}
