//lint:file-ignore SA1019 sampling and roots are deprecated, but supported, so they are tested

package gosdk_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

func TestURLErrorAsksInModernRevisions(t *testing.T) {
	needs := func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{{Mode: "url",
			Message: "Sign in", URL: "https://example.com", ElicitationID: "in"}})
	}
	server := single(t, func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if outcome := roundtrip.Visited(ctx, "in"); outcome != roundtrip.Missing {
			return toolText("visit " + outcome.String()), nil
		}
		return needs(ctx, req)
	})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks("in")
	w.retry("t", first, `{"in":{"action":"accept"}}`).wantText("visit accepted")

	c, _ := routes()[4].open(t, server, newPerson(t, nil), false)
	_, err := c.do(within(t), "t")
	if e, ok := errors.AsType[*jsonrpc.Error](err); !ok ||
		e.Code != protocol.CodeURLElicitationRequired {
		t.Errorf("in a session: got %v, want code -32042", err)
	}
}

// The way in which the SDK's documentation reads answers ends the process when
// somebody declines. Here it ends the request.
func TestPanicsEndTheRequest(t *testing.T) {
	server := single(t, func(_ context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) == 0 {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": formQuestion()}}, nil
		}
		name := req.Params.InputResponses["q"].(*mcp.ElicitResult).Content["reason"].(string)
		return toolText(name), nil
	})
	w := dialWire(t, server)
	w.retry("t", w.call("t", ""),
		`{"q":{"action":"decline"}}`).wantError(protocol.CodeInternalError, http.StatusOK)
	w.retry("t", w.call("t", ""), `{"q":{"action":"accept","content":{"reason":"because"}}}`).wantText("because")
}

// Others are held against the SDK alone in alone_test.go.
func TestErrorsOfHandlersKeepTheirCodes(t *testing.T) {
	own := &protocol.Error{Code: 4711, Message: "own", Data: raw(`{"a":1}`)}
	server := single(t, func(context.Context, *toolRequest) (*mcp.CallToolResult,
		error) {
		return nil, own
	})
	got := dialWire(t, server).call("t", "")
	if got.Error == nil || got.Error.Code != 4711 || string(got.Error.Data) != `{"a":1}` {
		t.Errorf("got %s", got.body)
	}
}

// The error that a typed tool returns is the one that the client gets, where
// the handler has chosen it.
func TestErrorsOfTypedTools(t *testing.T) {
	server := single(t, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "t"},
		func(ctx context.Context, _ *toolRequest, _ map[string]any) (*mcp.CallToolResult,
			any, error) {
			if roundtrip.Visited(ctx, "in") == roundtrip.Accepted {
				return nil, nil, &protocol.Error{Code: 4711, Message: "own"}
			}
			return nil, nil, &protocol.URLElicitationRequiredError{
				Elicitations: []*protocol.ElicitURL{
					{Message: "Sign in", URL: "https://example.com", ElicitationID: "in"}}}
		})
	w := dialWire(t, server)
	first := w.call("t", "")
	first.wantAsks("in")
	got := w.retry("t", first, `{"in":{"action":"accept"}}`)
	if got.Error == nil || got.Error.Code != 4711 {
		t.Errorf("got %s", got.body)
	}
}
