package mcpgo_test

import (
	"context"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestNoHandlerSendsAPersonAnywhere: URLs are checked whichever way a handler of
// mcp-go asks for a visit, in both eras, before anybody is asked.
func TestNoHandlerSendsAPersonAnywhere(t *testing.T) {
	bad := mcp.ElicitationParams{Mode: mcp.ElicitationModeURL, Message: "Sign in", URL: "javascript:alert(1)", ElicitationID: "login"}
	handlers := map[string]server.ToolHandlerFunc{
		"result": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcpgo.ToolInput(mcpgo.Question("login", bad)), nil
		},
		"builder": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return server.NewInputRequestBuilder("").Elicit("login", bad).ToolResult(), nil
		},
		"elicit": func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := mcpgo.Elicit(ctx, "login", mcp.ElicitationRequest{Params: bad})
			return mcp.NewToolResultText("visited"), err
		},
		"ask": func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("visited"), roundtrip.AskURL(ctx, "login", bad.Message, bad.URL)
		},
		"error": func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, mcp.URLElicitationRequiredError{Elicitations: []mcp.ElicitationParams{bad}}
		},
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			s, watch := newHostServer(), &bugs{}
			s.AddTool(mcp.NewTool("t"), handler)
			a := install(t, s, &mcpgo.Options{Options: roundtrip.Options{Observer: watch}})
			for over, dial := range senders(t, a, s) {
				got := dial(t)(request{method: "tools/call", target: "t"}.message())
				if got.Error.Code != -32603 || !strings.Contains(got.Error.Message, `"login"`) {
					t.Errorf("modern over %s: got %s", over, got.body)
				}
			}
			asked := elicitFunc(func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
				t.Error("somebody was asked")
				return &mcp.ElicitationResult{}, nil
			})
			if got := live(t.Context(), s, asked, "t"); got.Error.Code != -32603 || !strings.Contains(got.Error.Message, `"login"`) {
				t.Errorf("in a session: got %s", got.body)
			}
			if err := watch.err(); err == nil || !strings.Contains(err.Error(), "javascript") {
				t.Errorf("the operator is told %v", err)
			}
		})
	}
}
