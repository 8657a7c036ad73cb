package mcpgo_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/testing/hostedtest"
	"github.com/rondo-mcp/rondo/protocol"
)

type completing struct{}

func (completing) CompletePromptArgument(_ context.Context, prompt string,
	a mcp.CompleteArgument, _ mcp.CompleteContext) (*mcp.Completion, error) {
	return &mcp.Completion{Values: []string{prompt + a.Value}, Total: 1}, nil
}

func newRichServer() *mcpserver.MCPServer {
	s := newServer(mcpserver.WithInstructions("Be <kind> & quick."), mcpserver.WithTitle("T"),
		mcpserver.WithPromptCompletionProvider(completing{}), mcpserver.WithPaginationLimit(2),
		mcpserver.WithInputSchemaValidation(), mcpserver.WithOutputSchemaValidation(),
		mcpserver.WithToolFilter(func(_ context.Context, tools []mcp.Tool) []mcp.Tool {
			var shown []mcp.Tool
			for _, tool := range tools {
				if tool.Name != "hidden" {
					shown = append(shown, tool)
				}
			}
			return shown
		}))
	s.AddTool(mcp.NewTool("rich", mcp.WithDescription("a <b> & c"),
		mcp.WithString("z", mcp.Required()), mcp.WithNumber("a", mcp.Min(1)),
		mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithRawOutputSchema([]byte(`{"type":"object"}`))),
		func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r := mcp.NewToolResultStructured(map[string]any{"z": req.GetArguments()["z"]},
				"text <&>")
			r.Meta = mcp.NewMetaFromMap(map[string]any{"x/y": 1})
			return r, nil
		})
	s.AddTool(mcp.NewTool("failing"),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultError("it failed"), nil
		})
	s.AddTool(mcp.NewTool("nil"),
		func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, nil
		})
	s.AddTool(mcp.NewTool("hidden"), nil)
	s.AddPrompt(mcp.NewPrompt("greet", mcp.WithArgument("who", mcp.RequiredArgument())),
		func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return mcp.NewGetPromptResult("d", []mcp.PromptMessage{mcp.NewPromptMessage(
				mcp.RoleUser, mcp.NewTextContent("hi "+req.Params.Arguments["who"]))}), nil
		})
	s.AddResource(mcp.NewResource("x://r", "r", mcp.WithMIMEType("text/plain")), readText("r"))
	s.AddResourceTemplate(mcp.NewResourceTemplate("y://{id}", "t"),
		mcpserver.ResourceTemplateHandlerFunc(readText("t")))
	return s
}

func TestResultsAreThoseOfMCPGoByteForByte(t *testing.T) {
	c := open(t, newRichServer(), nil)
	alone := transport.NewInProcessTransport(newRichServer())
	noError(t, alone.Start(t.Context()))
	t.Cleanup(func() { _ = alone.Close() })
	ask := func(method, params string) string {
		t.Helper()
		request := transport.JSONRPCRequest{JSONRPC: "2.0", ID: mcp.NewRequestId(int64(1)),
			Method: method}
		if params != "" {
			request.Params = json.RawMessage(params)
		}
		response, err := alone.SendRequest(t.Context(), request)
		noError(t, err)
		if e := response.Error; e != nil {
			data, err := json.Marshal(e.Data)
			if e.Data == nil || err != nil {
				data = nil
			}
			return hostedtest.RawOf(&protocol.Response{Error: &protocol.Error{
				Code: int64(e.Code), Message: e.Message, Data: data}}, nil)
		}
		return string(response.Result)
	}
	want(t, protocol.MethodInitialize, c.Offers,
		ask(protocol.MethodInitialize, string(hostedtest.Initialize(declared).Params)))
	page := ask(protocol.MethodListTools, "")
	var first struct{ NextCursor string }
	if err := json.Unmarshal([]byte(page), &first); err != nil || first.NextCursor == "" {
		t.Fatalf("the list of tools has one page: %s", page)
	}
	c.WantSame(ask, [][2]string{
		{protocol.MethodPing, ""},
		{protocol.MethodListTools, ""},
		{protocol.MethodListTools, `{"cursor":"` + first.NextCursor + `"}`},
		{protocol.MethodListTools, `{"cursor":"?"}`},
		{protocol.MethodListPrompts, `{}`},
		{protocol.MethodListResources, `{}`},
		{protocol.MethodListResourceTemplates, `{}`},
		{protocol.MethodCallTool, `{"name":"rich","arguments":{"z":"<&>","a":2}}`},
		{protocol.MethodCallTool, `{"name":"rich","arguments":{}}`},
		{protocol.MethodCallTool, `{"name":"failing","_meta":{"progressToken":"p"}}`},
		{protocol.MethodCallTool, `{"name":"nil"}`},
		{protocol.MethodCallTool, `{"name":"hidden"}`},
		{protocol.MethodCallTool, `{"name":5}`},
		{protocol.MethodGetPrompt, `{"name":"greet","arguments":{"who":"ann"}}`},
		{protocol.MethodGetPrompt, `{"name":"none"}`},
		{protocol.MethodReadResource, `{"uri":"x://r"}`},
		{protocol.MethodReadResource, `{"uri":"y://1"}`},
		{protocol.MethodReadResource, `{"uri":"z://1"}`},
		{protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"greet"},` +
			`"argument":{"name":"who","value":"a"}}`},
		{protocol.MethodSetLevel, `{"level":"info"}`},
		{protocol.MethodSetLevel, `{"level":"loud"}`},
		{"x/unknown", ""},
	}...)
}
