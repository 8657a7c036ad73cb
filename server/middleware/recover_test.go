package middleware_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

func TestRecover(t *testing.T) {
	seen := &events{}
	panics := func(context.Context, *server.Request) (protocol.Result, error) { panic("broken") }
	request := toolCall(t)
	request.Target = "deploy"
	result, err := run(middleware.Recover(seen), request, panics)
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInternalError ||
		result != nil {
		t.Errorf("got %v, %v, want an internal error", result, err)
	}
	if strings.Contains(err.Error(), "broken") {
		t.Errorf("the client learns %q", err)
	}
	list := seen.all()
	if len(list) != 1 {
		t.Fatalf("events %v, want one", list)
	}
	e, ok := list[0].(event.HandlerPanicked)
	if !ok || e.Value != "broken" || e.Target != "deploy" ||
		!strings.Contains(string(e.Stack), "recover_test.go") {
		t.Errorf("event %+v, want the panic with its stack", list[0])
	}
	if _, err := run(middleware.Recover(nil), request, panics); err == nil {
		t.Error("without an observer a panic was no error")
	}
}

func TestPanicWithoutRecover(t *testing.T) {
	r := newRig(t)
	boom := func(context.Context, *server.Request) (protocol.Result, error) { panic("broken") }
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Metrics swallowed a panic")
			}
		}()
		run(r.metrics.Wrap, incoming(t, protocol.MethodPing, protocol.LocalPrincipal()), boom)
	}()
	r.wantValue(1, "rondo_requests_total", "outcome", "panic")
	r.wantValue(0, "rondo_requests_in_flight")
}
