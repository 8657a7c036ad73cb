package interop_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// TestMCPGoServerMistakes: our client, and what mcp-go's server lets handlers send.
func TestMCPGoServerMistakes(t *testing.T) {
	because := answers{"Sure?": `{"reason":"it is tested"}`}
	endure(t, func() http.Handler {
		return server.NewStreamableHTTPServer(newMistakenMCPGo(), server.WithStateLess(true),
			server.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	}, []mistake{
		{name: "neither questions nor state", request: tool("neither", nil),
			want: "unusable response"},
		{name: "questions in a complete result", request: tool("complete", nil), answers: because,
			want: ""},
		{name: "content and questions at once", request: tool("content", nil), answers: because,
			asked: 1, want: "done"},
		{name: "a question of no kind", request: tool("kind", nil), answers: because,
			want: "no response"},
		{name: "the URL error of another revision", request: tool("url", nil), answers: because,
			want: "server error -32603"},
		{name: "a handler that panics", request: tool("panic", nil), want: "no response"},
		{name: "a form that is none", request: tool("nested", nil), answers: because,
			want: "question refused"},
	})
}

// newMistakenMCPGo returns a server whose handlers do what they should not.
func newMistakenMCPGo() *server.MCPServer {
	s := server.NewMCPServer("mistaken", "1.0.0", server.WithToolCapabilities(false),
		server.WithElicitation())
	sure := mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: "Sure?",
		RequestedSchema: json.RawMessage(confirmSchema)}
	add := func(name string, wrong func() (*mcp.CallToolResult, error)) {
		s.AddTool(mcp.NewToolWithRawSchema(name, "", json.RawMessage(`{"type":"object"}`)),
			func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if len(r.Params.InputResponses) > 0 {
					return mcp.NewToolResultText("done"), nil
				}
				return wrong()
			})
	}
	add("neither", func() (*mcp.CallToolResult,
		error) {
		return server.NewInputRequestBuilder("").ToolResult(), nil
	})
	add("complete", func() (*mcp.CallToolResult, error) {
		result := server.NewInputRequestBuilder("s").Elicit("confirm", sure).ToolResult()
		result.ResultType = ""
		return result, nil
	})
	add("content", func() (*mcp.CallToolResult, error) {
		result := server.NewInputRequestBuilder("s").Elicit("confirm", sure).ToolResult()
		result.Content, result.StructuredContent = []mcp.Content{mcp.NewTextContent("done")},
			map[string]any{"done": true}
		return result, nil
	})
	add("kind", func() (*mcp.CallToolResult, error) {
		result := server.NewInputRequestBuilder("s").ToolResult()
		result.InputRequests = mcp.InputRequests{"confirm": {Method: "tools/call"}}
		return result, nil
	})
	add("url", func() (*mcp.CallToolResult, error) {
		return nil, mcp.URLElicitationRequiredError{Elicitations: []mcp.ElicitationParams{
			{Mode: mcp.ElicitationModeURL, Message: "Sure?", URL: "https://example.com/in",
				ElicitationID: "1"}}}
	})
	add("panic", func() (*mcp.CallToolResult, error) { panic("at the disco") })
	add("nested", func() (*mcp.CallToolResult, error) {
		nested := sure
		nested.RequestedSchema = json.RawMessage(`{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`)
		return server.NewInputRequestBuilder("s").Elicit("confirm", nested).ToolResult(), nil
	})
	return s
}
