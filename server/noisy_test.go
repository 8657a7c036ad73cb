package server_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// noisy is an observer that should not have been written.
type noisy struct{}

func (noisy) Observe(_ context.Context, event roundtrip.Event) {
	if _, ok := event.(roundtrip.HandlerPanicked); ok {
		panic("in the observer")
	}
}

// observing is an observer.
type observing func(roundtrip.Event)

func (f observing) Observe(_ context.Context, event roundtrip.Event) { f(event) }

// TestStdioPanicOutsideHandlers: what panics beside handlers ends its request
// and not the process, which has other clients.
func TestStdioPanicOutsideHandlers(t *testing.T) {
	srv, err := server.New(&server.Options{Observer: noisy{}})
	if err != nil {
		t.Fatal(err)
	}
	server.AddRawTool(srv, server.Tool{Name: "panic"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
		panic("in the handler")
	})
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeStream(t.Context(), fromClient, toClient, nil) }()
	lines := bufio.NewScanner(fromServer)
	for _, say := range []struct{ line, want string }{
		{initializeLine("0", "2025-11-25"), `"id":0,"result"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic"}}`, `"id":1,"error":{"code":-32603`},
		{`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `"id":2,"result"`},
	} {
		if _, err := io.WriteString(toServer, say.line+"\n"); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), say.want) {
			t.Fatalf("got %s, %v, want %s", lines.Text(), lines.Err(), say.want)
		}
	}
	toServer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSessionNewsOutlivePanics: who decides what a client may learn panics. It is
// told to nobody, reported, and the next news are sent.
func TestSessionNewsOutlivePanics(t *testing.T) {
	broken, told := true, make(chan struct{})
	h := newHarness(t, &server.Options{Observer: observing(func(event roundtrip.Event) {
		if _, ok := event.(roundtrip.HandlerPanicked); ok {
			close(told)
		}
	}), Visible: func(_ roundtrip.Principal, _, name string) bool {
		if broken && name == "test://secret" {
			panic("on purpose")
		}
		return true
	}})
	server.AddResource(h.Server, server.Resource{URI: "test://secret", Name: "secret"},
		func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) { return nil, nil })
	c := h.enter(protocol.V20251125, `{}`)
	if r := c.request(protocol.MethodSubscribe, `{"uri":"test://secret"}`); r.Error != nil {
		t.Fatal(r.Error)
	}
	h.ResourceUpdated("test://secret")
	<-told
	broken = false
	h.ResourceUpdated("test://secret")
	if n := <-c.news; n.Method != protocol.NotifyResourceUpdated || !strings.Contains(string(n.Params), "secret") {
		t.Errorf("got %s %s", n.Method, n.Params)
	}
}
