package interop_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestGoSDKServerMistakes: our client, and what the official Go SDK's server lets handlers send.
func TestGoSDKServerMistakes(t *testing.T) {
	because := answers{"Sure?": `{"reason":"it is tested"}`}
	endure(t, func() http.Handler {
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
			return newMistakenGoSDK()
		},
			&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	}, []mistake{
		{name: "an empty map of questions", request: tool("empty", nil), want: "unusable response"},
		{name: "a question that is null is never answered", request: tool("null", nil),
			want: "timeout"},
		{name: "failure and questions at once", request: tool("failed", nil), answers: because,
			asked: 1, want: "done"},
		{name: "content and questions at once", request: tool("content", nil), answers: because,
			want: "server error -32603"},
		{name: "a typed result and questions at once", request: tool("typed", nil),
			answers: because, asked: 1, want: `{"done":true}`},
		{name: "the URL error of another revision", request: tool("url", nil), answers: because,
			want: "server error -32042"},
		{name: "a URL that no person should see", request: tool("javascript", nil),
			answers: because, want: "question refused"},
		{name: "a form that is none", request: tool("nested", nil), answers: because,
			want: "question refused"},
		// complete, and messages null
		{name: "a prompt with a state alone", request: prompt("state", nil),
			want: "unusable response"},
		{name: "a resource with a state alone", request: resource("state://alone"),
			want: "server error 0"},
	})
}

// newMistakenGoSDK returns a server whose handlers do what they should not.
func newMistakenGoSDK() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "mistaken", Version: "1.0.0"}, nil)
	sure := &mcp.ElicitParams{Mode: "form", Message: "Sure?",
		RequestedSchema: json.RawMessage(confirmSchema)}
	add := func(name string, wrong func() (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if len(req.Params.InputResponses) > 0 {
					return &mcp.CallToolResult{
						Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil
				}
				return wrong()
			})
	}
	add("empty", func() (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil
	})
	add("null", func() (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": nil}}, nil
	})
	add("failed", func() (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{IsError: true,
			InputRequests: mcp.InputRequestMap{"confirm": sure}}, nil
	})
	add("content", func() (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}},
			InputRequests: mcp.InputRequestMap{"confirm": sure}}, nil
	})
	add("url", func() (*mcp.CallToolResult, error) {
		return nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{
			{Mode: "url", Message: "Sure?", URL: "https://example.com/in", ElicitationID: "1"}})
	})
	add("javascript", func() (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
			"confirm": &mcp.ElicitParams{Mode: "url", Message: "Sure?",
				URL: "javascript:alert(1)"}}}, nil
	})
	add("nested", func() (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{
			"confirm": &mcp.ElicitParams{Mode: "form", Message: "Sure?",
				RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`)}}}, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "typed"},
		func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult,
			map[string]bool, error) {
			if len(req.Params.InputResponses) > 0 {
				return nil, map[string]bool{"done": true}, nil
			}
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"confirm": sure}}, nil,
				nil
		})
	s.AddPrompt(&mcp.Prompt{Name: "state"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{RequestState: "s"}, nil
		})
	s.AddResource(&mcp.Resource{Name: "state", URI: "state://alone"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{RequestState: "s"}, nil
		})
	return s
}
