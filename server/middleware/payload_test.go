package middleware_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

var small = &middleware.Options{ArgumentBytes: 30, ResultBytes: 100}

func TestPayloadOfRequests(t *testing.T) {
	long := strings.Repeat("x", 31)
	answer := `{"action":"decline"}`
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`"%d":0`, i)
	}
	tests := []struct {
		name, method string
		members      []string
		want         string // empty: served
	}{
		{"small arguments", protocol.MethodCallTool,
			[]string{`"name":"echo"`, `"arguments":{"note":"hello"}`}, ""},
		{"large arguments", protocol.MethodCallTool,
			[]string{`"name":"echo"`, `"arguments":{"note":"` + long + `"}`},
			"arguments: 42 bytes are over the server's limit of 30"},
		{"large prompt arguments", protocol.MethodGetPrompt,
			[]string{`"name":"greet"`, `"arguments":{"who":"` + long + `"}`},
			"arguments: 41 bytes are over the server's limit of 30"},
		{"long uri", protocol.MethodReadResource, []string{`"uri":"doc://` + long + `"`},
			"uri: 37 bytes"},
		{"a small answer", protocol.MethodCallTool,
			[]string{`"name":"echo"`, answers(`"a":` + answer)}, ""},
		{"many answers", protocol.MethodCallTool, []string{`"name":"echo"`,
			answers(strings.Join(many, ","))},
			"inputResponses: 65 answers are over the server's limit of 64"},
		{"large answers", protocol.MethodCallTool,
			[]string{`"name":"echo"`, answers(`"a":{"x":"` + long + `"}`)},
			"inputResponses: 40 bytes are over the server's limit of 30"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, middleware.Payload(small))
			response := r.send(tt.method, tt.members...)
			if tt.want != "" {
				wantCode(t, response, protocol.CodeInvalidParams, tt.want)
			} else if response.Error != nil {
				t.Errorf("got %v, want a result", response.Error)
			}
		})
	}
}

func TestPayloadOfCompletions(t *testing.T) {
	request := incoming(protocol.MethodComplete, protocol.LocalPrincipal())
	request.Params = &protocol.CompleteParams{
		Prompt:  "greet",
		Context: map[string]string{"who": strings.Repeat("x", 30)},
	}
	_, err := run(middleware.Payload(small), request, returns(server.Text("served"), nil))
	if e, ok := protocol.AsError(err); !ok || e.Code != protocol.CodeInvalidParams {
		t.Errorf("got %v, want invalid params", err)
	}
}

func TestPayloadLetsRefusalsPass(t *testing.T) {
	request := toolCall()
	request.Params = &protocol.CallToolParams{Name: "echo",
		Arguments: json.RawMessage(`{"note":"` + strings.Repeat("x", 100) + `"}`)}
	request.Refuse(protocol.Errorf(protocol.CodeHeaderMismatch, "no"))
	_, err := run(middleware.Payload(small), request, returns(nil, request.Refusal()))
	wantEqual(t, "a refused request", err, error(request.Refusal()))
}

func TestPayloadOfResults(t *testing.T) {
	text := strings.Repeat("x", 101)
	data := make([]byte, 76) // 104 as base64
	tests := map[string]protocol.Result{
		"text":          server.Text(text),
		"error text":    server.ErrorText(text),
		"several texts": server.Text(text[:60], text[:60]),
		"image": &protocol.CallToolResult{
			Content: []protocol.Content{&protocol.ImageContent{Data: data}}},
		"audio": &protocol.CallToolResult{
			Content: []protocol.Content{&protocol.AudioContent{Data: data}}},
		"structured": &protocol.CallToolResult{
			StructuredContent: json.RawMessage(`"` + text + `"`)},
		"embedded resource": &protocol.CallToolResult{Content: []protocol.Content{
			&protocol.EmbeddedResource{Resource: protocol.ResourceContents{Text: text}}}},
		"link": &protocol.CallToolResult{
			Content: []protocol.Content{&protocol.ResourceLink{
				Resource: protocol.Resource{URI: "a:b", Icons: []protocol.Icon{{Src: text}}}}}},
		"other content": &protocol.CallToolResult{Content: []protocol.Content{
			&protocol.OtherContent{Raw: json.RawMessage(`{"x":"` + text + `"}`)}}},
		"prompt": &protocol.GetPromptResult{
			Messages: []protocol.PromptMessage{server.UserText(text)}},
		"resource": &protocol.ReadResourceResult{
			Contents: []protocol.ResourceContents{{Blob: data}}},
		"form": &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
			{Key: "k", Request: &protocol.ElicitForm{Message: text}}}},
		"url": &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{
			{Key: "k", Request: &protocol.ElicitURL{URL: text}}}},
		"sampling": &protocol.InputRequiredResult{InputRequests: protocol.InputRequests{{Key: "k",
			Request: &protocol.CreateMessage{
				Messages: []protocol.SamplingMessage{
					{
						Content: []protocol.Content{&protocol.ToolResult{
							Content: []protocol.Content{&protocol.TextContent{Text: text}}}}}},
			}}}},
		"state": &protocol.InputRequiredResult{RequestState: protocol.StateText(text)},
	}
	for name, result := range tests {
		t.Run(name, func(t *testing.T) {
			handler := returns(result, nil)
			_, err := run(middleware.Payload(small), toolCall(), handler)
			e, ok := protocol.AsError(err)
			if !ok || e.Code != protocol.CodeInternalError ||
				!strings.Contains(e.Message, "over the server's limit of 100") {
				t.Errorf("got %v, want an internal error that names the limit", err)
			}
			for _, opts := range []*middleware.Options{nil, {ResultBytes: -1}} {
				got, err := run(middleware.Payload(opts), toolCall(), handler)
				if err != nil || got != result {
					t.Errorf("with %v: %v, %v", opts, got, err)
				}
			}
		})
	}
}

func TestPayloadSurvivesNilResults(t *testing.T) {
	form := (*protocol.ElicitForm)(nil)
	for _, result := range []protocol.Result{
		nil, (*protocol.CallToolResult)(nil), (*protocol.GetPromptResult)(nil),
		(*protocol.ReadResourceResult)(nil),
		(*protocol.InputRequiredResult)(nil), struct{ protocol.Result }{},
		&protocol.CallToolResult{Content: []protocol.Content{nil, (*protocol.TextContent)(nil),
			(*protocol.ImageContent)(nil), (*protocol.ResourceLink)(nil)}},
		&protocol.InputRequiredResult{InputRequests: protocol.InputRequests{{Key: "a"},
			{Key: "b", Request: form}}},
	} {
		chain := newRig(t).metrics.Wrap(middleware.Payload(small)(returns(result, nil)))
		if got, err := chain(t.Context(), toolCall()); got != result || err != nil {
			t.Errorf("%T: got %T, %v", result, got, err)
		}
	}
}
