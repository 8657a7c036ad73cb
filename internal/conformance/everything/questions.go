package main

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Forms to fill in, with the keys of their questions. All are checked when the
// program starts.
type (
	userName struct {
		Name string `json:"name" jsonschema:"what to call you"`
	}
	confirmation struct {
		OK bool `json:"ok" jsonschema:"go ahead?"`
	}
)

var (
	askName = roundtrip.MustQuestion[userName]("user_name")
	confirm = roundtrip.MustQuestion[confirmation]("confirm")
)

// addQuestions registers a tool for each kind of question.
func addQuestions(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name: "test_input_required_result_elicitation", Description: "Asks the person for a name.",
		// Answers count only if the state that comes with them proves that this
		// flow asked for them. Some clients send answers without the state, the
		// conformance suite's own probes among them. A tool for which an answer
		// is input like any other, and no consent, may take them all the same.
		AcceptUnsolicited: true,
	}, greet)
	add(srv, "test_streaming_elicitation",
		"Reports progress, then asks the person for a name.", greetSlowly)
	add(srv, "test_input_required_result_sampling",
		"Asks the client's model for a capital.", capital)
	add(srv, "test_input_required_result_list_roots",
		"Asks for the directories that the client exposes.", directories)
	add(srv, "test_input_required_result_capabilities",
		"Asks whatever this client can be asked.", whatever)
	server.AddTool(srv, server.Tool{
		Name: "test_missing_capability", Description: "Is of no use without a model.",
		// Refused before the handler runs. Questions need no such declaration:
		// they are held against the client's capabilities when they are asked.
		Needs: protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}},
	}, capital)
}

// greet runs once a round, from its start. What is missing, or does not fit the
// form, is asked for; an answer that is read was accepted and is valid. Who
// declines is not asked again: the flow ends with an error result that says so.
func greet(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	who, ok := askName.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(askName.Elicit("What is your name?")), nil
	}
	return server.Text("Hello, " + who.Name + "!"), nil
}

func greetSlowly(ctx context.Context, call *server.ToolCall, in nothing) (outcome, error) {
	if err := call.Progress(ctx, 1, 2, "thinking of a question"); err != nil {
		return nil, err
	}
	return greet(ctx, call, in)
}

func capital(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	said, ok := roundtrip.Sampled(ctx, "capital_question")
	if !ok {
		return roundtrip.InputRequired(roundtrip.CreateMessage("capital_question",
			prompt("What is the capital of France?", 100))), nil
	}
	return blocks(said.Content...)
}

// prompt is a request to the client's model with a single message.
func prompt(text string, maxTokens int64) *protocol.CreateMessage {
	return &protocol.CreateMessage{
		Messages: []protocol.SamplingMessage{
			{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: text}}},
		},
		MaxTokens: maxTokens,
	}
}

func directories(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	roots, ok := roundtrip.Roots(ctx, "client_roots")
	if !ok {
		return roundtrip.InputRequired(roundtrip.ListRoots("client_roots")), nil
	}
	lines := []string{fmt.Sprintf("%d directories", len(roots))}
	for _, root := range roots {
		lines = append(lines, root.URI)
	}
	return server.Text(lines...), nil
}

// whatever looks at what the client declares before it chooses a question.
func whatever(ctx context.Context, call *server.ToolCall, in nothing) (outcome, error) {
	declared := call.Capabilities()
	switch {
	case declared.Missing(&protocol.ElicitForm{}).IsZero():
		return greet(ctx, call, in)
	case declared.Missing(&protocol.CreateMessage{}).IsZero():
		return capital(ctx, call, in)
	case declared.Missing(&protocol.ListRoots{}).IsZero():
		return directories(ctx, call, in)
	}
	return server.Text("There is nothing that you could be asked."), nil
}
