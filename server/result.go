package server

import (
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// Text returns the result of a tool with a text block for each argument.
func Text(blocks ...string) *protocol.CallToolResult {
	if len(blocks) == 1 { // the usual case, in one allocation
		var r struct {
			result  protocol.CallToolResult
			content [1]protocol.Content
			text    protocol.TextContent
		}
		r.text.Text = blocks[0]
		r.content[0] = &r.text
		r.result.Content = r.content[:]
		return &r.result
	}
	r := &protocol.CallToolResult{Content: make([]protocol.Content, len(blocks))}
	for i, text := range blocks {
		r.Content[i] = &protocol.TextContent{Text: text}
	}
	return r
}

// ErrorText returns the result of a tool that ran without success: "there is no such bill". The
// model reads the text and may try again. A [*ToolError] is its equivalent as an error.
//
// A plain error of a handler is logged and counted as a failure, and the model gets its text unless
// roundtrip.Options.HideErrors is set. A [*protocol.Error] fails the request.
func ErrorText(text string) *protocol.CallToolResult {
	r := Text(text)
	r.IsError = true
	return r
}

// Structured returns the result of a tool with v in JSON, as structured content and as text. If v
// cannot be encoded it fails, and the client gets an internal error.
func Structured(v any) (*protocol.CallToolResult, error) {
	data, err := jsonx.Marshal(v)
	if err != nil {
		return nil, &bugError{fmt.Errorf("structured content: %w", err)}
	}
	r := Text(string(data))
	r.StructuredContent = data
	return r, nil
}

// UserText returns a prompt message with the role user.
func UserText(text string) protocol.PromptMessage {
	return protocol.PromptMessage{Role: protocol.User, Content: &protocol.TextContent{Text: text}}
}

// AssistantText returns a prompt message with the role assistant.
func AssistantText(text string) protocol.PromptMessage {
	return protocol.PromptMessage{Role: protocol.Assistant,
		Content: &protocol.TextContent{Text: text}}
}
