package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// counting returns a client of a server whose tool counts its runs.
func counting(t *testing.T) (c *visitor, runs *int) {
	h := newHarness(t, nil)
	runs = new(int)
	server.AddRawTool(h.Server, server.Tool{Name: "count"}, func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
		*runs++
		return server.Text("counted"), nil
	})
	return h.enter(protocol.V20251125, `{}`), runs
}

func cancelOf(id any) string { return fmt.Sprintf(`{"requestId":%v}`, id) }

// TestSessionCancelOvertakes: over HTTP a cancellation is a request of its own
// and may be there before that which it cancels. Its handler does not run.
func TestSessionCancelOvertakes(t *testing.T) {
	c, runs := counting(t)
	in := c.admit(protocol.MethodCallTool, `{"name":"count"}`)
	c.notify(protocol.NotifyCancelled, cancelOf(in.Request.ID))
	if r := c.serve(in); r.Error == nil || r.Error.Code != protocol.CodeInvalidRequest || *runs != 0 {
		t.Errorf("answered %s, %v, and ran %d times", r.Result, r.Error, *runs)
	}
	// It is used up. A client that uses ids again is served.
	again := c.h.Serve(t.Context(), c.session.Admit(&protocol.Request{ID: in.Request.ID, Method: protocol.MethodPing}))
	if again.Error != nil {
		t.Errorf("the same id again: %v", again.Error)
	}
}
