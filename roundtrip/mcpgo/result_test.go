package mcpgo_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// addMistakes adds handlers that do what they should not, or what mcp-go has no
// way for.
func addMistakes(s *server.MCPServer) {
	add := func(name string, wrong func() (*mcp.CallToolResult, error)) {
		s.AddTool(mcp.NewTool(name),
			func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if answer := server.ElicitationResponse(r.Params.InputResponses,
					"confirm"); answer != nil {
					return mcp.NewToolResultText(describeAnswer(answer)), nil
				}
				return wrong()
			})
	}
	asks := func() *mcp.CallToolResult {
		return server.NewInputRequestBuilder("s").Elicit("confirm", form("Sure?")).ToolResult()
	}
	add("good", func() (*mcp.CallToolResult, error) { return asks(), nil })
	add("neither", func() (*mcp.CallToolResult,
		error) {
		return server.NewInputRequestBuilder("").ToolResult(), nil
	})
	add("untyped", func() (*mcp.CallToolResult, error) {
		r := asks()
		r.ResultType = ""
		return r, nil
	})
	add("stateful", func() (*mcp.CallToolResult, error) {
		r := mcp.NewToolResultText("done")
		r.RequestState = "secret"
		return r, nil
	})
	add("content", func() (*mcp.CallToolResult, error) {
		r := asks()
		r.Content, r.StructuredContent, r.IsError = []mcp.Content{mcp.NewTextContent("done")},
			map[string]any{"done": true}, true
		return r, nil
	})
	add("visit", func() (*mcp.CallToolResult, error) {
		return server.NewInputRequestBuilder("").Elicit("confirm", visit("Go?")).ToolResult(), nil
	})
	add("sample", func() (*mcp.CallToolResult, error) {
		return server.NewInputRequestBuilder("").Sample("confirm", sampling()).ToolResult(), nil
	})
	add("kind", func() (*mcp.CallToolResult, error) {
		r := asks()
		r.InputRequests = mcp.InputRequests{"confirm": {Method: "tools/call"}}
		return r, nil
	})
	add("no form", func() (*mcp.CallToolResult, error) {
		q := form("Sure?")
		q.RequestedSchema = func() {}
		return mcpgo.ToolInput(mcpgo.Question("confirm", q)), nil
	})
	add("url error", func() (*mcp.CallToolResult, error) {
		return nil, mcp.URLElicitationRequiredError{
			Elicitations: []mcp.ElicitationParams{visit("Go?"), visit("Go on?")}}
	})
	add("url error pointer", func() (*mcp.CallToolResult, error) {
		return nil, errors.Join(errors.New("first"),
			&mcp.URLElicitationRequiredError{Elicitations: []mcp.ElicitationParams{visit("Go?")}})
	})
	add("missing", func() (*mcp.CallToolResult, error) {
		return nil, mcp.MissingRequiredClientCapabilityError{Capability: "elicitation.url"}
	})
	add("panic", func() (*mcp.CallToolResult, error) { panic("at the disco") })
	add("nothing", func() (*mcp.CallToolResult, error) { return nil, nil })
	add("fails", func() (*mcp.CallToolResult, error) { return nil, errors.New("out of paint") })
}

// TestResultsAndErrorsOfHandlers: what mcp-go would send unchanged, and what the adapter
// sends in its place.
func TestResultsAndErrorsOfHandlers(t *testing.T) {
	for _, tc := range []struct {
		name, tool, capabilities string
		want                     string
		status                   int // over HTTP, 0: 200
		without                  []string
		bug                      string
	}{
		{name: "neither questions nor state", tool: "neither", want: "-32603 internal error",
			bug: "at least one"},
		{name: "questions in a complete result", tool: "untyped", want: "asks"},
		{name: "state in a complete result", tool: "stateful", want: "done",
			without: []string{"secret"}},
		{name: "content beside questions", tool: "content", want: "asks",
			without: []string{"content\":[", "done", "isError"}},
		{name: "a form nobody can fill in", tool: "good", capabilities: `{}`, want: "-32021",
			status: http.StatusBadRequest},
		{name: "a form where only visits are possible", tool: "good",
			capabilities: `{"elicitation":{"url":{}}}`, want: "-32021",
			status: http.StatusBadRequest},
		{name: "a visit where only forms are possible", tool: "visit",
			capabilities: `{"elicitation":{}}`, want: "-32021", status: http.StatusBadRequest},
		{name: "no model", tool: "sample", want: "-32021", status: http.StatusBadRequest},
		{name: "a question of no kind", tool: "kind", want: "-32603 internal error",
			bug: `question "confirm"`},
		{name: "a form that cannot be encoded", tool: "no form", want: "-32603 internal error",
			bug: `question "confirm"`},
		{name: "the URL error of another revision", tool: "url error", want: "asks"},
		{name: "by pointer, wrapped", tool: "url error pointer", want: "asks"},
		{name: "a capability that the handler misses", tool: "missing", want: "-32021",
			status: http.StatusBadRequest},
		{name: "a panic", tool: "panic", want: "-32603 internal error"},
		{name: "neither a result nor an error", tool: "nothing", want: "-32603 internal error",
			bug: "neither"},
		{name: "an ordinary error is as it was", tool: "fails", want: "-32603 out of paint"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := &bugs{}
			over(t, &mcpgo.Options{Options: roundtrip.Options{Observer: found}}, addMistakes,
				func(t *testing.T, send sender) {
					got := send(request{method: protocol.MethodCallTool, target: tc.tool,
						capabilities: tc.capabilities}.message())
					wiretest.Validate(t, modern, wiretest.Server, []byte(got.body),
						protocol.MethodCallTool)
					if !strings.HasPrefix(got.text(), tc.want) {
						t.Errorf("got %s, want %s", got.body, tc.want)
					}
					if want := max(tc.status, http.StatusOK); got.status != 0 &&
						got.status != want {
						t.Errorf("status %d, want %d", got.status, want)
					}
					for _, part := range tc.without {
						if strings.Contains(got.body, part) {
							t.Errorf("%s is in %s", part, got.body)
						}
					}
					if err := found.err(); tc.bug == "" && err != nil || tc.bug != "" &&
						(err == nil || !strings.Contains(err.Error(), tc.bug)) {
						t.Errorf("reported %v, want %q", err, tc.bug)
					}
				})
		})
	}
}
