package mcpgo_test

import (
	"context"
	"errors"
	"net/url"
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
	bad := mcp.ElicitationParams{Mode: mcp.ElicitationModeURL, Message: "Sign in",
		URL: "javascript:alert(1)", ElicitationID: "login"}
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
			asked := elicitFunc(func(context.Context,
				mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
				t.Error("somebody was asked")
				return &mcp.ElicitationResult{}, nil
			})
			if got := live(t.Context(), s, asked, "t"); got.Error.Code != -32603 ||
				!strings.Contains(got.Error.Message, `"login"`) {
				t.Errorf("in a session: got %s", got.body)
			}
			if err := watch.err(); err == nil || !strings.Contains(err.Error(), "javascript") {
				t.Errorf("the operator is told %v", err)
			}
		})
	}
}

// TestOwnCallsOfAHandlerAreChecked: mcp-go's own calls in a session of an older
// revision pass what the adapter writes, and a bad URL never leaves. The handler
// gets an error at once.
func TestOwnCallsOfAHandlerAreChecked(t *testing.T) {
	const bad = "https://user:canary-4242@example.com/"
	calls := map[string]func(ctx context.Context, s *server.MCPServer, url string) error{
		"RequestElicitation": func(ctx context.Context, s *server.MCPServer, url string) error {
			_, err := s.RequestElicitation(ctx,
				mcp.ElicitationRequest{Params: mcp.ElicitationParams{
					Mode: mcp.ElicitationModeURL, Message: "Sign in", URL: url,
					ElicitationID: "login"}})
			return err
		},
		"RequestURLElicitation": func(ctx context.Context, s *server.MCPServer, url string) error {
			_, err := s.RequestURLElicitation(ctx, server.ClientSessionFromContext(ctx), "login",
				url, "Sign in")
			return err
		},
	}
	for name, call := range calls {
		for _, transport := range []string{"http", "http, standing", "lines"} {
			t.Run(name+"/"+transport, func(t *testing.T) {
				s, watch := newHostServer(), &bugs{}
				for tool, url := range map[string]string{"bad": bad,
					"banned": "https://banned.example/", "good": visitURL} {
					s.AddTool(mcp.NewTool(tool),
						func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult,
							error) {
							return mcp.NewToolResultText("visited"), call(ctx, s, url)
						})
				}
				opts := &mcpgo.Options{Options: roundtrip.Options{Observer: watch,
					AllowURL: func(u *url.URL) error {
						if u.Host == "banned.example" {
							return errors.New("banned")
						}
						return nil
					}}}
				c := openSession(t, transport, v20251125, install(t, s, opts), s)
				for _, tool := range []string{"bad", "banned"} {
					c.say(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `"}}`)
					got := c.response("7")
					if got.Error == nil || got.Error.Code != -32603 || !strings.Contains(got.Error.Message, `the URL of question "login" is not allowed, so nothing was asked`) {
						t.Errorf("%s: got %s", tool, got.raw)
					}
				}
				if said := c.text(); strings.Contains(said, `"method":"elicitation/create"`) ||
					strings.Contains(said, "4242") {
					t.Errorf("said was %s", said)
				}
				if err := watch.err(); err == nil ||
					!strings.Contains(err.Error(), "credentials") ||
					!strings.Contains(err.Error(), "banned") ||
					strings.Contains(err.Error(), "4242") {
					t.Errorf("the operator is told %v", err)
				}
				c.say(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"good"}}`)
				c.say(`{"jsonrpc":"2.0","id":` + string(c.question().ID) +
					`,"result":{"action":"accept"}}`)
				if got := c.response("8"); !strings.Contains(got.raw, "visited") {
					t.Errorf("good: got %s", got.raw)
				}
			})
		}
	}
}
