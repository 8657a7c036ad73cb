package main

import (
	"context"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// userContext is what a prompt wants to know before it is written.
type userContext struct {
	Context string `json:"context" jsonschema:"what the prompt is for"`
}

var askContext = roundtrip.MustQuestion[userContext]("user_context")

func addPrompts(srv *server.Server) {
	server.AddPrompt(srv, server.Prompt{Name: "test_simple_prompt",
		Description: "A prompt without arguments."}, simplePrompt)
	server.AddPrompt(srv, server.Prompt{
		Name: "test_prompt_with_arguments", Description: "A prompt with two arguments.",
		Arguments: []protocol.PromptArgument{
			{Name: "arg1", Description: "The first argument", Required: true},
			{Name: "arg2", Description: "The second argument", Required: true},
		},
		Complete: completeArgument,
	}, promptWithArguments)
	server.AddPrompt(srv, server.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A prompt that brings a resource along.",
		Arguments: []protocol.PromptArgument{
			{Name: "resourceUri", Description: "The URI of the resource to embed", Required: true},
		},
	}, promptWithResource)
	server.AddPrompt(srv, server.Prompt{Name: "test_prompt_with_image",
		Description: "A prompt about an image."}, promptWithImage)
	server.AddPrompt(srv, server.Prompt{
		Name: "test_input_required_result_prompt", Description: "A prompt that asks the person what it is for.",
	}, promptThatAsks)
}

// messages is a prompt that the user says, a message for each block.
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

func promptWithArguments(_ context.Context,
	call *server.PromptCall) (protocol.GetPromptOutcome, error) {
	return messages(&protocol.TextContent{
		Text: "Prompt with arguments: arg1='" + call.Arguments["arg1"] + "', arg2='" +
			call.Arguments["arg2"] + "'",
	}), nil
}

// completeArgument suggests the values that begin with what was typed.
func completeArgument(_ context.Context, call *server.CompleteCall) ([]string, error) {
	var fitting []string
	for _, value := range []string{"paris", "park", "party", "test", "testing"} {
		if strings.HasPrefix(value, call.Value) {
			fitting = append(fitting, value)
		}
	}
	return fitting, nil
}

func promptWithResource(_ context.Context,
	call *server.PromptCall) (protocol.GetPromptOutcome, error) {
	contents, err := readText(call.Arguments["resourceUri"])
	if err != nil {
		return nil, err
	}
	return messages(
		&protocol.EmbeddedResource{Resource: contents},
		&protocol.TextContent{Text: "Please process the embedded resource above."},
	), nil
}

func promptWithImage(context.Context, *server.PromptCall) (protocol.GetPromptOutcome, error) {
	return messages(picture(), &protocol.TextContent{Text: "Please analyze the image above."}), nil
}

// promptThatAsks shows that prompts, and resources too, ask as tools do.
func promptThatAsks(ctx context.Context, _ *server.PromptCall) (protocol.GetPromptOutcome, error) {
	answer, ok := askContext.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(
			askContext.Elicit("What context should the prompt use?")), nil
	}
	return messages(&protocol.TextContent{Text: "Use this context: " + answer.Context}), nil
}
