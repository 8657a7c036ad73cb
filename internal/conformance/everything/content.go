package main

import (
	"context"
	_ "embed"
	"errors"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

//go:embed picture.png
var picturePNG []byte

//go:embed sound.wav
var soundWAV []byte

// nothing is the input of tools that take no arguments.
type nothing struct{}

type outcome = protocol.CallToolOutcome

// add registers a tool that needs no more than a name and a description.
func add[In any](srv *server.Server, name, description string,
	f func(context.Context, *server.ToolCall, In) (outcome, error)) {
	server.AddTool(srv, server.Tool{Name: name, Description: description}, f)
}

func picture() *protocol.ImageContent {
	return &protocol.ImageContent{Data: picturePNG, MIMEType: "image/png"}
}

func blocks(content ...protocol.Content) (outcome, error) {
	return &protocol.CallToolResult{Content: content}, nil
}

// addContent registers a tool for each kind of content that a result can hold.
func addContent(srv *server.Server) {
	// The first tool of the list can be called without arguments.
	add(srv, "test_simple_text", "Answers with text.", simpleText)
	add(srv, "test_image_content", "Answers with an image.", imageContent)
	add(srv, "test_audio_content", "Answers with a sound.", audioContent)
	add(srv, "test_embedded_resource",
		"Answers with a resource within the result.", embeddedResource)
	add(srv, "test_multiple_content_types",
		"Answers with text, an image and a resource.", mixedContent)
	add(srv, "test_error_handling", "Runs and fails.", fails)
}

func simpleText(context.Context, *server.ToolCall, nothing) (outcome, error) {
	return server.Text("This is a simple text response for testing."), nil
}

func imageContent(context.Context, *server.ToolCall, nothing) (outcome, error) {
	return blocks(picture())
}

func audioContent(context.Context, *server.ToolCall, nothing) (outcome, error) {
	return blocks(&protocol.AudioContent{Data: soundWAV, MIMEType: "audio/wav"})
}

func embeddedResource(context.Context, *server.ToolCall, nothing) (outcome, error) {
	return blocks(&protocol.EmbeddedResource{Resource: protocol.ResourceContents{
		URI: "test://embedded-resource", MIMEType: "text/plain",
		Text: "This is an embedded resource content.",
	}})
}

func mixedContent(context.Context, *server.ToolCall, nothing) (outcome, error) {
	return blocks(&protocol.TextContent{Text: "Multiple content types test:"}, picture(),
		&protocol.EmbeddedResource{Resource: protocol.ResourceContents{
			URI: "test://mixed-content-resource", MIMEType: "application/json",
			Text: `{"test":"data","value":123}`,
		}})
}

// fails shows that a plain error is a result that the model can read. What
// should fail the request itself is a *protocol.Error.
func fails(context.Context, *server.ToolCall, nothing) (outcome, error) {
	return nil, errors.New("this tool intentionally returns an error for testing")
}
