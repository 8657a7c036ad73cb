package protocol_test

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

func ExampleEncodeResult() {
	done := &protocol.CallToolResult{
		Content: []protocol.Content{&protocol.TextContent{Text: "deployed"}}}
	for _, version := range []protocol.Version{protocol.V20260728, protocol.V20251125} {
		data, err := protocol.EncodeResult(version, protocol.MethodCallTool, done)
		fmt.Println(string(data), err)
	}

	// A result for a legacy client cannot ask.
	asks := &protocol.InputRequiredResult{RequestState: protocol.StateText("later")}
	_, err := protocol.EncodeResult(protocol.V20251125, protocol.MethodCallTool, asks)
	fmt.Println(err)
	// Output:
	// {"resultType":"complete","content":[{"type":"text","text":"deployed"}]} <nil>
	// {"content":[{"type":"text","text":"deployed"}]} <nil>
	// tools/call result: revision 2025-11-25 has no input_required results
}

func ExampleDecodeResult() {
	for _, data := range []string{
		`{"resultType":"complete","content":[{"type":"text","text":"deployed"}]}`,
		`{"resultType":"input_required","inputRequests":{"where":{"method":"roots/list"}},"requestState":""}`,
		`{"resultType":"some_day"}`,
	} {
		result, err := protocol.DecodeResult(protocol.V20260728, protocol.MethodCallTool,
			[]byte(data))
		switch r := result.(type) {
		case *protocol.CallToolResult:
			fmt.Println("done:", r.Content[0].(*protocol.TextContent).Text)
		case *protocol.InputRequiredResult:
			_, present := r.RequestState.Text()
			fmt.Println("asked for", r.InputRequests[0].Key, "with state:", present)
		default:
			fmt.Println(err)
		}
	}
	// Output:
	// done: deployed
	// asked for where with state: true
	// tools/call result: unknown resultType "some_day"
}

func ExampleDecodeMessage() {
	for _, data := range []string{
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":"7","method":5}`,
	} {
		switch m, err := protocol.DecodeMessage([]byte(data)); m := m.(type) {
		case *protocol.Request:
			fmt.Println("request", m.ID, m.Method, err)
		case *protocol.Notification:
			fmt.Println("notification", m.Method)
		}
	}
	// Output:
	// request 9007199254740993 tools/list <nil>
	// notification notifications/initialized
	// request "7"  invalid request: method must be a string (code -32600)
}

func ExampleInputRequiredResult() {
	var outcome protocol.CallToolOutcome = &protocol.InputRequiredResult{
		InputRequests: protocol.InputRequests{
			{Key: "confirm", Request: &protocol.ElicitForm{
				Message: "Deploy to production?",
				Schema:  json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}}}`),
			}},
			{Key: "account", Request: &protocol.ElicitURL{Message: "Sign in first",
				URL: "https://example.com/login"}},
		},
		RequestState: protocol.StateText("opaque"),
	}
	data, err := protocol.EncodeResult(protocol.V20260728, protocol.MethodCallTool, outcome)
	fmt.Println(string(data), err)
	// Output:
	// {"resultType":"input_required","inputRequests":{"confirm":{"method":"elicitation/create","params":{"mode":"form","message":"Deploy to production?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}},"account":{"method":"elicitation/create","params":{"mode":"url","message":"Sign in first","url":"https://example.com/login"}}},"requestState":"opaque"} <nil>
}

func ExampleClientCapabilities_Missing() {
	declared, err := protocol.DecodeClientCapabilities([]byte(`{"elicitation":{},"sampling":{}}`))
	if err != nil {
		panic(err)
	}
	for _, question := range []protocol.InputRequest{
		&protocol.ElicitForm{},
		&protocol.ElicitURL{},
		&protocol.CreateMessage{ToolChoice: &protocol.ToolChoice{Mode: "required"}},
		&protocol.ListRoots{},
	} {
		fmt.Printf("%s: missing %s\n", question.Kind(), declared.Missing(question))
	}
	// Output:
	// elicitation.form: missing none
	// elicitation.url: missing elicitation.url
	// sampling: missing sampling.tools
	// roots: missing roots
}
