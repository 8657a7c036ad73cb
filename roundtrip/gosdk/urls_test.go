package gosdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestNoHandlerSendsAPersonAnywhere: URLs are checked whichever way a handler of
// the SDK asks for a visit, in both eras, before anybody is asked.
func TestNoHandlerSendsAPersonAnywhere(t *testing.T) {
	visit := func(url string) *mcp.ElicitParams {
		return &mcp.ElicitParams{Mode: "url", Message: "Sign in", URL: url, ElicitationID: "login"}
	}
	required := func(url string) *jsonrpc.Error {
		raw, _ := json.Marshal(map[string]any{"elicitations": []*mcp.ElicitParams{visit(url)}})
		return &jsonrpc.Error{Code: protocol.CodeURLElicitationRequired, Message: "m", Data: raw}
	}
	const bad = "https://user:canary-4242@example.com/"
	for _, style := range []struct {
		name    string
		handler mcp.ToolHandler
		options []option
	}{
		{"result",
			asks(&mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"login": visit(bad)}}),
			nil},
		{"elicit", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			_, err := gosdk.Elicit(gosdk.WithKey(ctx, "login"), req.Session, visit(bad))
			return toolText("visited"), err
		}, nil},
		{"unmodified", func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			_, err := req.Session.Elicit(gosdk.WithKey(ctx, "login"), visit(bad))
			return toolText("visited"), err
		}, []option{withUnmodifiedHandlers()}},
		{"error", func(context.Context, *toolRequest) (*mcp.CallToolResult, error) {
			return nil,
				required(bad)
		}, nil},
	} {
		t.Run(style.name, func(t *testing.T) {
			watch := &observer{}
			options := append(style.options, withFunnel(roundtrip.Options{Observer: watch}))
			server := single(t, style.handler, options...)
			got := dialWire(t, server).call("t", "")
			if got.Error == nil || got.Error.Code != protocol.CodeInternalError ||
				!strings.Contains(got.Error.Message, `"login"`) {
				t.Errorf("modern: got %s", got.body)
			}
			who := newPerson(t, nil)
			c, _ := routes()[4].open(t, server, who, false)
			_, err := c.do(within(t), "t")
			if e, ok := errors.AsType[*jsonrpc.Error](err); !ok ||
				e.Code != protocol.CodeInternalError || !strings.Contains(e.Message, `"login"`) {
				t.Errorf("in a session: got %v", err)
			}
			who.wantAsked(0)
			bugs := 0
			for _, e := range watch.all() {
				if bug, ok := e.(event.ServerBug); ok {
					bugs++
					if said := bug.Err.Error(); !strings.Contains(said, "credentials") ||
						strings.Contains(said, "4242") {
						t.Errorf("the operator is told %s", said)
					}
				}
			}
			if bugs != 2 {
				t.Errorf("%d bugs reported, want 2", bugs)
			}
		})
	}
}

// TestElicitWithoutARoundChecksURLs, where it is the SDK's own call.
func TestElicitWithoutARoundChecksURLs(t *testing.T) {
	who := newListener()
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "1"}, nil)
	var err error
	server.AddTool(&mcp.Tool{Name: "t", InputSchema: raw(`{"type":"object"}`)},
		func(ctx context.Context, req *toolRequest) (*mcp.CallToolResult, error) {
			_, err = gosdk.Elicit(ctx, req.Session,
				&mcp.ElicitParams{Mode: "url", Message: "m", URL: "javascript:alert(1)",
					ElicitationID: "e"})
			return toolText("done"), nil
		})
	if _, failed := who.connect(t, server, legacy).CallTool(within(t),
		&mcp.CallToolParams{Name: "t"}); failed != nil {
		t.Fatal(failed)
	}
	if err == nil || !strings.Contains(err.Error(), "javascript") || len(who.said) != 0 {
		t.Errorf("got %v; the client heard %v", err, who.said)
	}
}
