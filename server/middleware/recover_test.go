package middleware_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

func TestRecover(t *testing.T) {
	w := newWatch(t, nil, nil)
	panics := func(context.Context, *server.Request) (protocol.Result, error) { panic("broken") }
	request := toolCall()
	request.Target = "deploy"
	result, err := run(middleware.Recover(w), request, panics)
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInternalError ||
		result != nil {
		t.Errorf("got %v, %v, want an internal error", result, err)
	}
	wantNoPart(t, "the client's error", err.Error(), "broken")
	e := w.entry("mcp.handler_panicked")
	wantFields(t, e, map[string]any{"panic": "broken", "target": "deploy"})
	wantPart(t, "the stack", fmt.Sprint(e.ContextMap()["stack"]), "recover_test.go")
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
		run(r.metrics.Wrap, incoming(protocol.MethodPing, protocol.LocalPrincipal()), boom)
	}()
	r.wantValue(1, "rondo_requests_total", "outcome", "panic")
	r.wantValue(0, "rondo_requests_in_flight")
}
