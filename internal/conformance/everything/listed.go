package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type userContext struct {
	Context string `json:"context" jsonschema:"what the prompt is for"`
}

func addPrompts(srv *server.Server) {
	argument := func(name, description string) protocol.PromptArgument {
		return protocol.PromptArgument{Name: name, Description: description, Required: true}
	}
	server.AddPrompt(srv, server.Prompt{Name: "test_simple_prompt",
		Description: "A prompt without arguments."}, simplePrompt)
	server.AddPrompt(srv, server.Prompt{
		Name: "test_prompt_with_arguments", Description: "A prompt with two arguments.",
		Arguments: []protocol.PromptArgument{argument("arg1", "The first argument"),
			argument("arg2", "The second argument")},
		Complete: completeArgument,
	}, func(_ context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
		return messages(&protocol.TextContent{Text: "Prompt with arguments: arg1='" +
			call.Arguments["arg1"] + "', arg2='" + call.Arguments["arg2"] + "'"}), nil
	})
	server.AddPrompt(srv, server.Prompt{Name: "test_prompt_with_embedded_resource",
		Description: "A prompt that brings a resource along.",
		Arguments: []protocol.PromptArgument{
			argument("resourceUri", "The URI of the resource to embed")},
	}, func(_ context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
		uri := call.Arguments["resourceUri"]
		text, ok := texts[uri]
		if !ok {
			return nil, protocol.ResourceNotFound(uri)
		}
		return messages(embedded(uri, "text/plain", text),
			&protocol.TextContent{Text: "Please process the embedded resource above."}), nil
	})
	server.AddPrompt(srv, server.Prompt{Name: "test_prompt_with_image",
		Description: "A prompt about an image."},
		func(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
			return messages(picture(),
				&protocol.TextContent{Text: "Please analyze the image above."}), nil
		})
	server.AddPrompt(srv, server.Prompt{Name: "test_input_required_result_prompt",
		Description: "A prompt that asks the person what it is for."},
		func(ctx context.Context, _ *server.PromptCall) (protocol.GetPromptOutcome, error) {
			answer, err := roundtrip.Ask[userContext](ctx, "user_context",
				"What context should the prompt use?")
			return messages(&protocol.TextContent{Text: "Use this context: " + answer.Context}), err
		})
}

func messages(blocks ...protocol.Content) *protocol.GetPromptResult {
	result := &protocol.GetPromptResult{}
	for _, block := range blocks {
		result.Messages = append(result.Messages,
			protocol.PromptMessage{Role: protocol.User, Content: block})
	}
	return result
}

func simplePrompt(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
	return messages(&protocol.TextContent{Text: "This is a simple prompt for testing."}), nil
}

func completeArgument(_ context.Context, call *server.CompleteCall) (fitting []string, err error) {
	for _, value := range []string{"paris", "park", "party", "test", "testing"} {
		if strings.HasPrefix(value, call.Value) {
			fitting = append(fitting, value)
		}
	}
	return fitting, nil
}

var texts = map[string]string{
	"test://static-text":      "This is the content of the static text resource.",
	"test://example-resource": "Embedded resource content for testing.",
}

func contents(mimeType, text string) *protocol.ReadResourceResult {
	return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
		{MIMEType: mimeType, Text: text}}}
}

func addResources(srv *server.Server) {
	for _, uri := range slices.Sorted(maps.Keys(texts)) {
		text := texts[uri]
		server.AddResource(srv, server.Resource{URI: uri, Name: strings.TrimPrefix(uri, "test://"),
			Description: "Text that never changes.", MIMEType: "text/plain"},
			func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
				return contents("text/plain", text), nil
			})
	}
	server.AddResource(srv, server.Resource{URI: "test://static-binary", Name: "Static image",
		Description: "A picture that never changes.", MIMEType: "image/png"},
		func(context.Context, *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
			return &protocol.ReadResourceResult{Contents: []protocol.ResourceContents{
				{MIMEType: "image/png", Blob: picturePNG}}}, nil
		})
	// The client's {id} may be any text, so it is encoded.
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "test://template/{id}/data", Name: "Data by id",
		Description: "A record for every id.", MIMEType: "application/json",
	}, func(_ context.Context, call *server.ResourceCall) (protocol.ReadResourceOutcome, error) {
		text, err := json.Marshal(map[string]any{"id": call.Variables["id"],
			"data": "Data for this id", "templateTest": true})
		return contents("application/json", string(text)), err
	})
}
