package main

import (
	"context"
	"errors"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// nothing is the input of tools that take no arguments.
type nothing struct{}

// addContent registers a tool for each kind of content that a result can hold.
func addContent(srv *server.Server) {
	// The first tool of the list can be called without arguments.
	server.AddTool(srv,
		server.Tool{Name: "test_simple_text", Description: "Answers with text."}, simpleText)
	server.AddTool(srv, server.Tool{Name: "test_image_content",
		Description: "Answers with an image."}, imageContent)
	server.AddTool(srv,
		server.Tool{Name: "test_audio_content", Description: "Answers with a sound."}, audioContent)
	server.AddTool(srv, server.Tool{
		Name: "test_embedded_resource", Description: "Answers with a resource within the result.",
	}, embeddedResource)
	server.AddTool(srv, server.Tool{
		Name: "test_multiple_content_types", Description: "Answers with text, an image and a resource.",
	}, mixedContent)
	server.AddTool(srv,
		server.Tool{Name: "test_error_handling", Description: "Runs and fails."}, fails)
}

func simpleText(context.Context, *server.ToolCall, nothing) (protocol.CallToolOutcome, error) {
	return server.Text("This is a simple text response for testing."), nil
}

func imageContent(context.Context, *server.ToolCall, nothing) (protocol.CallToolOutcome, error) {
	image, err := picture()
	if err != nil {
		return nil, err
	}
	return &protocol.CallToolResult{Content: []protocol.Content{image}}, nil
}

func audioContent(context.Context, *server.ToolCall, nothing) (protocol.CallToolOutcome, error) {
	return &protocol.CallToolResult{Content: []protocol.Content{sound()}}, nil
}

func embeddedResource(context.Context, *server.ToolCall,
	nothing) (protocol.CallToolOutcome, error) {
	return &protocol.CallToolResult{Content: []protocol.Content{
		&protocol.EmbeddedResource{Resource: protocol.ResourceContents{
			URI: "test://embedded-resource", MIMEType: "text/plain",
			Text: "This is an embedded resource content.",
		}},
	}}, nil
}

func mixedContent(context.Context, *server.ToolCall, nothing) (protocol.CallToolOutcome, error) {
	image, err := picture()
	if err != nil {
		return nil, err
	}
	return &protocol.CallToolResult{Content: []protocol.Content{
		&protocol.TextContent{Text: "Multiple content types test:"},
		image,
		&protocol.EmbeddedResource{Resource: protocol.ResourceContents{
			URI: "test://mixed-content-resource", MIMEType: "application/json",
			Text: `{"test":"data","value":123}`,
		}},
	}}, nil
}

// fails shows that a plain error is a result that the model can read. What
// should fail the request itself is a *protocol.Error.
func fails(context.Context, *server.ToolCall, nothing) (protocol.CallToolOutcome, error) {
	return nil, errors.New("this tool intentionally returns an error for testing")
}
