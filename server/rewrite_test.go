package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// Middleware may put other arguments in the place of those that came. Nobody has looked at their JSON before, so it is held to
// the same rules as a message's.
func TestRewrittenArguments(t *testing.T) {
	const schema = `{"type":"object","properties":{"n":{"type":"integer"},"on":{"type":"boolean"}},"additionalProperties":false}`
	type input struct {
		N  int  `json:"n"`
		On bool `json:"on"`
	}
	var arguments json.RawMessage
	h := newHarness(t, &server.Options{Middleware: []server.Middleware{func(next server.Handler) server.Handler {
		return func(ctx context.Context, in *server.Incoming) (protocol.Result, error) {
			in.Params.(*protocol.CallToolParams).Arguments = arguments
			return next(ctx, in)
		}
	}}})
	server.AddTool(h.Server, server.Tool{Name: "typed", InputSchema: json.RawMessage(schema)},
		func(_ context.Context, _ *server.ToolCall, in input) (protocol.CallToolOutcome, error) {
			return server.Text(fmt.Sprint(in.N, in.On)), nil
		})
	server.AddRawTool(h.Server, server.Tool{Name: "raw", InputSchema: json.RawMessage(schema)},
		func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text(string(call.Arguments)), nil
		})
	for _, tt := range []struct {
		name, arguments string
		typed, raw      string // empty: refused
	}{
		{"valid", `{"n":2,"on":true}`, "2 true", `{"n":2,"on":true}`},
		{"none", ``, "0 false", `{}`},
		{"a member twice", `{"n":1,"n":2}`, "", ""},
		{"no literal", `{"on":trash}`, "", ""},
		{"no number", `{"n":01}`, "", ""},
		{"no UTF-8", "{\"\xff\":1}", "", ""},
		{"cut short", `{"n":1`, "", ""},
		{"against the schema", `{"n":"1"}`, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.T = t
			arguments = json.RawMessage(tt.arguments)
			for tool, want := range map[string]string{"typed": tt.typed, "raw": tt.raw} {
				if got := h.call(tool, `{"n":1}`); want == "" {
					got.failed("invalid arguments")
				} else {
					got.text(want)
				}
			}
		})
	}
}
