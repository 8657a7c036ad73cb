//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// A state without questions is no complete result: the client has to come back with it.

func TestStateAloneAsksAgain(t *testing.T) {
	w := dialWire(t, single(t, asks(&mcp.CallToolResult{RequestState: "1"})))
	first := w.call("t", "")
	first.wantAsks()
	w.retry("t", first, "{}").wantText(`0 answers, state \"1\"`)
}

func TestStateAloneOfAPromptAsksAgain(t *testing.T) {
	server := single(t, nil)
	server.AddPrompt(&mcp.Prompt{Name: "p"},
		func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if req.Params.RequestState == "1" {
				return promptText("done"), nil
			}
			return &mcp.GetPromptResult{RequestState: "1"}, nil
		})
	dialWire(t, server).send(protocol.MethodGetPrompt, `{"name":"p"}`).wantAsks()
}

func TestStateAloneOfATypedToolAsksAgain(t *testing.T) {
	type out struct{ Deleted bool }
	server := single(t, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "t"},
		func(_ context.Context, req *toolRequest, _ map[string]any) (*mcp.CallToolResult,
			out, error) {
			if req.Params.RequestState == "1" {
				return nil, out{true}, nil
			}
			return &mcp.CallToolResult{RequestState: "1"}, out{}, nil
		})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks()
	got := w.retry("t", first, "{}")
	if string(got.member("structuredContent")) != `{"Deleted":true}` {
		t.Errorf("got %s", got.body)
	}
}

// With the builder it does not matter either that the zero value of the output
// does not fit its own schema.
func TestTypedToolAsksWithABuilder(t *testing.T) {
	type out struct {
		Names []string `json:"names"`
	}
	server := single(t, nil)
	schema := raw(`{"type":"object","properties":{"names":{"type":"array","minItems":1}},"required":["names"]}`)
	mcp.AddTool(server, &mcp.Tool{Name: "t", OutputSchema: schema},
		func(ctx context.Context, _ *toolRequest, _ map[string]any) (*mcp.CallToolResult,
			out, error) {
			if roundtrip.RawAnswer(ctx, "q").Outcome == roundtrip.Accepted {
				return nil, out{[]string{"a"}}, nil
			}
			result, err := gosdk.ToolInput(ctx,
				roundtrip.ElicitSchema("q", "Sure?", raw(reasonForm)))
			return result, out{}, err
		})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks("q")
	if got := w.retry("t", first, `{"q":{"action":"accept","content":{"reason":"because"}}}`); string(got.member("structuredContent")) != `{"names":["a"]}` {
		t.Errorf("got %s", got.body)
	}
}

func TestMistakesOfHandlersAreInternalErrors(t *testing.T) {
	tests := map[string]*mcp.CallToolResult{
		"an empty map": {InputRequests: mcp.InputRequestMap{}},
		"a failure that asks": {IsError: true,
			InputRequests: mcp.InputRequestMap{"q": formQuestion()}},
		"a nil question": {InputRequests: mcp.InputRequestMap{"q": nil}},
		"a nil form": {
			InputRequests: mcp.InputRequestMap{"q": (*mcp.ElicitParams)(nil)}},
		"a form without schema": {
			InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Sure?"}}},
		"a form with nested parts": {InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Sure?", RequestedSchema: raw(`{"type":"object","properties":{"a":{"type":"object"}}}`)}}},
		"what cannot be encoded": {InputRequests: mcp.InputRequestMap{
			"q": &mcp.ElicitParams{Message: "Sure?", RequestedSchema: func() {}}}},
		"nothing": nil,
	}
	for name, result := range tests {
		t.Run(name, func(t *testing.T) {
			var bugs observer
			server := single(t, asks(result), withFunnel(roundtrip.Options{Observer: &bugs}))
			dialWire(t, server).call("t", "").wantError(protocol.CodeInternalError, http.StatusOK)
			if bugs.count(func(e event.Event) bool {
				_, ok := e.(event.ServerBug)
				return ok
			}) != 1 {
				t.Errorf("the observer saw %v, want one mistake", bugs.all())
			}
			who := newPerson(t, nil)
			c, _ := routes()[4].open(t, server, who, false) // the SDK's client, in a session
			if got, err := c.do(within(t), "t"); err == nil ||
				!strings.Contains(err.Error(), "internal error") {
				t.Errorf("in a session: got %q, %v", got, err)
			}
		})
	}
}

// The SDK itself refuses these, in both eras.
func TestContentBesideQuestionsIsAnError(t *testing.T) {
	both := &mcp.CallToolResult{Content: toolText("x").Content,
		InputRequests: mcp.InputRequestMap{"q": formQuestion()}}
	dialWire(t, single(t, asks(both))).call("t", "").wantError(protocol.CodeInternalError,
		http.StatusOK)
}

func TestStateAloneOfAResourceAsksAgain(t *testing.T) {
	read := func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult,
		error) {
		if n, _ := roundtrip.State[int](ctx); n == 1 {
			return resourceText(req.Params.URI, "done"), nil
		}
		if req.Params.URI == "state://returned" {
			return &mcp.ReadResourceResult{RequestState: "1"}, nil
		}
		return gosdk.ResourceInput(ctx, roundtrip.WithState(1))
	}
	server := single(t, nil)
	server.AddResource(&mcp.Resource{Name: "r", URI: "state://built"}, read)
	server.AddResource(&mcp.Resource{Name: "r", URI: "state://returned"}, read)
	w := dialWire(t, server)
	w.send(protocol.MethodReadResource, `{"uri":"state://built"}`).wantAsks()
	// The SDK fails before middleware sees the state; the code is the SDK's.
	w.send(protocol.MethodReadResource, `{"uri":"state://returned"}`).wantError(0, http.StatusOK)
}
