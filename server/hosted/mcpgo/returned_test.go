package mcpgo_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// The function asking asks the questions of both eras.
func asking(state string) *mcpserver.InputRequestBuilder {
	return mcpserver.NewInputRequestBuilder(state).Elicit("why", form("Why?").Params).Roots("dirs")
}

const askedBoth = `"inputRequests":{"dirs":{"method":"roots/list"},"why":{"method":` +
	`"elicitation/create","params":` + askedForm + `}}`

func TestReturnedQuestionsAreTheResult(t *testing.T) {
	afterwards := 0 // results that ask, which middleware and hooks have seen
	hooks := &mcpserver.Hooks{}
	hooks.AddAfterCallTool(func(_ context.Context, _ any, _ *mcp.CallToolRequest, result any) {
		if result.(*mcp.CallToolResult).NeedsInput() {
			afterwards++
		}
	})
	s := newServer(mcpserver.WithHooks(hooks), mcpserver.WithOutputSchemaValidation(),
		mcpserver.WithToolHandlerMiddleware(aroundTools("middleware",
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return asking("m").ToolResult(), nil
			})))
	s.Use(func(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
		return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			result, err := next(ctx, req)
			if result.NeedsInput() {
				afterwards++
			}
			return result, err
		}
	})
	results := map[string]*mcp.CallToolResult{
		"both":       asking("s1").ToolResult(),
		"state":      mcpserver.NewInputRequestBuilder("later").ToolResult(),
		"stateless":  asking("").ToolResult(),
		"middleware": mcp.NewToolResultText("not reached"),
	}
	for name, result := range results {
		s.AddTool(mcp.NewTool(name),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return result, nil
			})
	}
	s.AddPrompt(mcp.NewPrompt("prompt"),
		func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return asking("s1").PromptResult(), nil
		})
	c := open(t, s, nil)
	b := &back{}
	for _, test := range []struct{ name, want string }{
		{"both", `{"resultType":"input_required",` + askedBoth + `,"requestState":"s1"}`},
		{"state", `{"resultType":"input_required","requestState":"later"}`},
		{"stateless", `{"resultType":"input_required",` + askedBoth + `}`},
		{"middleware", `{"resultType":"input_required",` + askedBoth + `,"requestState":"m"}`},
	} {
		want(t, test.name, c.Call(test.name, b), test.want)
	}
	want(t, "prompt", c.Do(b, protocol.MethodGetPrompt, `{"name":"prompt"}`),
		`{"resultType":"input_required",`+askedBoth+`,"requestState":"s1"}`)
	wantLines(t, "pushed", b.Sent())
	if afterwards != 7 {
		t.Errorf("middleware and hooks have seen %d results that ask, want 7", afterwards)
	}
}

func TestAnswersAndStateReachHandlers(t *testing.T) {
	s := newServer()
	answers := func(p mcp.MultiRoundTripParams) string {
		return fmt.Sprint(p.RequestState, " ",
			mcpserver.ElicitationResponse(p.InputResponses, "why").Content, " ",
			mcpserver.RootsResponse(p.InputResponses, "dirs").Roots[0].URI)
	}
	addTool(s, "tool", func(_ context.Context, req mcp.CallToolRequest) (string, error) {
		return answers(req.Params.MultiRoundTripParams), nil
	})
	s.AddPrompt(mcp.NewPrompt("prompt"),
		func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{
				Description: answers(req.Params.MultiRoundTripParams)}, nil
		})
	c := open(t, s, nil)
	const given = `,"inputResponses":{"why":{"action":"accept","content":{"a":1}},` +
		`"dirs":{"roots":[{"uri":"file:///x"}]}},"requestState":"s1"}`
	want(t, "tool", hostedtest.TextOf(c.Send(t.Context(), protocol.MethodCallTool,
		`{"name":"tool"`+given, nil)),
		"s1 map[a:1] file:///x")
	want(t, "prompt", c.Do(&back{}, protocol.MethodGetPrompt, `{"name":"prompt"`+given),
		`{"description":"s1 map[a:1] file:///x","messages":[]}`)
}

func TestURLErrorsHaveTheirCode(t *testing.T) {
	required := mcp.URLElicitationRequiredError{Elicitations: []mcp.ElicitationParams{{
		Mode: mcp.ElicitationModeURL, ElicitationID: "e1", URL: "https://example.com/login",
		Message: "Log in"}}}
	errs := map[string]error{
		"value":      required,
		"pointer":    &required,
		"wrapped":    fmt.Errorf("first: %w", required),
		"middleware": nil,
	}
	s := newServer(mcpserver.WithToolHandlerMiddleware(aroundTools("middleware",
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, required
		})))
	for name, err := range errs {
		addTool(s, name, func(context.Context, mcp.CallToolRequest) (string, error) {
			return "", err
		})
	}
	s.AddPrompt(mcp.NewPrompt("prompt"),
		func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return nil, required
		})
	s.AddResource(mcp.NewResource("x://r", "r"),
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return nil, required
		})
	c := open(t, s, nil)
	text := func(prefix string) string {
		return "-32042 " + prefix + `URL elicitation required: 1 elicitation(s) needed ` +
			`{"elicitations":[{"mode":"url","message":"Log in","elicitationId":"e1",` +
			`"url":"https://example.com/login"}]}`
	}
	for _, name := range []string{"value", "pointer", "middleware"} {
		want(t, name, c.Call(name, &back{}), text(""))
	}
	want(t, "wrapped", c.Call("wrapped", &back{}), text("first: "))
	want(t, "prompt", c.Do(&back{}, protocol.MethodGetPrompt, `{"name":"prompt"}`), text(""))
	want(t, "resource", c.Do(&back{}, protocol.MethodReadResource, `{"uri":"x://r"}`),
		text(""))
	want(t, "missing resource", c.Do(&back{}, protocol.MethodReadResource,
		`{"uri":"x://none"}`), "-32002 handler not found for resource URI 'x://none': "+
		"resource not found")
}

func TestHeadersReachWhateverTakesRequests(t *testing.T) {
	seen := map[string]string{}
	see := func(where string, h http.Header) { seen[where] = h.Get("X-Tenant") }
	hooks := &mcpserver.Hooks{}
	hooks.AddBeforeListTools(func(_ context.Context, _ any, m *mcp.ListToolsRequest) {
		see("hook", m.Header)
	})
	hooks.AddBeforeInitialize(func(_ context.Context, _ any, m *mcp.InitializeRequest) {
		see("initialize", m.Header)
	})
	s := newServer(mcpserver.WithHooks(hooks), mcpserver.WithToolHandlerMiddleware(
		func(next mcpserver.ToolHandlerFunc) mcpserver.ToolHandlerFunc {
			return func(ctx context.Context, req mcp.CallToolRequest) (
				*mcp.CallToolResult, error) {
				see("middleware", req.Header)
				return next(ctx, req)
			}
		}))
	addTool(s, "tool", func(_ context.Context, req mcp.CallToolRequest) (string, error) {
		see("tool", req.Header)
		req.Header.Set("X-Tenant", "changed by a handler")
		return "", nil
	})
	s.AddPrompt(mcp.NewPrompt("prompt"),
		func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			see("prompt", req.Header)
			return &mcp.GetPromptResult{}, nil
		})
	s.AddResourceTemplate(mcp.NewResourceTemplate("x://{id}", "t"),
		func(_ context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			see("template", req.Header)
			return nil, nil
		})
	c := open(t, s, &hosted.Caller{SessionID: "s1", Header: http.Header{"X-Tenant": {"blue"}}})
	c.Call("tool", &back{})
	c.Do(&back{}, protocol.MethodListTools, `{}`)
	c.Do(&back{}, protocol.MethodGetPrompt, `{"name":"prompt"}`)
	c.Do(&back{}, protocol.MethodReadResource, `{"uri":"x://1"}`)
	for _, where := range []string{
		"initialize", "hook", "middleware", "tool", "prompt", "template"} {
		want(t, where, seen[where], "blue")
	}
}
