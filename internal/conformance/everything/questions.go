package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// These are forms, named after their questions. All are checked when the program starts.
type (
	userName struct {
		Name string `json:"name" jsonschema:"what to call you"`
	}
	confirmation struct {
		OK bool `json:"ok" jsonschema:"go ahead?"`
	}
	stepName struct {
		Name string `json:"name"`
	}
	stepColor struct {
		Color string `json:"color"`
	}
	contactData struct {
		Username string `json:"username" jsonschema:"your name here"`
		Email    string `json:"email" format:"email"`
	}
	// A profile has a default of every kind that allows one.
	profile struct {
		Name     string  `json:"name,omitempty" default:"John Doe"`
		Age      int     `json:"age,omitempty" default:"30"`
		Score    float64 `json:"score,omitempty" default:"95.5"`
		Status   string  `json:"status,omitempty" enum:"active,inactive,pending" default:"active"`
		Verified bool    `json:"verified,omitempty" default:"true"`
	}
)

var (
	askName    = roundtrip.MustQuestion[userName]("user_name")
	confirm    = roundtrip.MustQuestion[confirmation]("confirm")
	step1      = roundtrip.MustQuestion[stepName]("step1")
	step2      = roundtrip.MustQuestion[stepColor]("step2")
	askContact = roundtrip.MustQuestion[contactData]("contact")
	askProfile = roundtrip.MustQuestion[profile]("profile")
)

// choices is a form with every kind of choice, including the kind of older revisions.
const choices = `{"type":"object","properties":{
	"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
	"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
	"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
	"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
	"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}
}}`

// A question is a handler without arguments. Each round runs it from its start. It asks again for
// missing or invalid answers, so answers that it reads are accepted and valid. After a refusal the
// flow ends with an error result.
type question func(context.Context, *server.ToolCall, nothing) (outcome, error)

// addQuestions registers tools that ask clients of both eras.
func addQuestions(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name: "test_input_required_result_elicitation", Description: "Asks the person for a name.",
		// Answers count only with the state that proves that this flow asked for them. Some
		// clients, such as probes of the suite, omit it. For plain input a tool may accept that.
		AcceptUnsolicited: true,
	}, greet)
	server.AddTool(srv, server.Tool{
		Name: "test_missing_capability", Description: "Is of no use without a model.",
		// Refused before the handler runs. Questions are checked against capabilities when asked.
		Needs: protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}},
	}, capital)
	for _, tool := range []struct {
		name, description string
		handle            question
	}{
		{"test_streaming_elicitation", "Reports progress, then asks the person for a name.",
			func(ctx context.Context, call *server.ToolCall, in nothing) (outcome, error) {
				if err := call.Progress(ctx, 1, 2, "thinking of a question"); err != nil {
					return nil, err
				}
				return greet(ctx, call, in)
			}},
		{"test_input_required_result_sampling", "Asks the client's model for a capital.", capital},
		{"test_input_required_result_list_roots",
			"Asks for the directories that the client exposes.", directories},
		{"test_input_required_result_capabilities", "Asks whatever this client can be asked.",
			whatever},
		{"test_input_required_result_request_state", "Keeps something in mind while it asks.",
			remember},
		// A state must have been sent to this caller, for this tool and these arguments.
		{"test_input_required_result_tampered_state", "Asks, and refuses a state that was changed.",
			confirmed},
		{"test_input_required_result_multiple_inputs", "Asks person, model and client at once.",
			several},
		{"test_input_required_result_multi_round", "Asks one thing after the other.", steps},
		{"test_elicitation_sep1034_defaults", "Asks with a form that has defaults.",
			func(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
				return shown(askProfile.Answer(ctx),
					askProfile.Elicit("Please check your profile."))
			}},
		{"test_elicitation_sep1330_enums", "Asks with a form that has every way to choose.",
			func(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
				return shown(roundtrip.RawAnswer(ctx, "choices"),
					roundtrip.ElicitSchema("choices", "Please choose.", json.RawMessage(choices)))
			}},
	} {
		add(srv, tool.name, tool.description, tool.handle)
	}
	add(srv, "test_elicitation", "Asks the person for a name and an email address.",
		func(ctx context.Context, _ *server.ToolCall, in message) (outcome, error) {
			return shown(askContact.Answer(ctx), askContact.Elicit(in.Message))
		})
	add(srv, "test_sampling", "Has the client's model answer a prompt.",
		func(ctx context.Context, _ *server.ToolCall, in samplingPrompt) (outcome, error) {
			said, ok := roundtrip.Sampled(ctx, "sample")
			if !ok {
				return roundtrip.InputRequired(
					roundtrip.CreateMessage("sample", prompt(in.Prompt, 100))), nil
			}
			return after("LLM response:", said), nil
		})
}

type message struct {
	Message string `json:"message" jsonschema:"what to tell the person"`
}

type samplingPrompt struct {
	Prompt string `json:"prompt" jsonschema:"what to ask the model"`
}

func shown[T any](reply roundtrip.Reply[T], question roundtrip.Question) (outcome, error) {
	switch reply.Outcome {
	case roundtrip.Accepted:
		content, err := json.Marshal(reply.Content)
		return server.Text("Elicitation completed: action=accept, content=" + string(content)), err
	case roundtrip.Declined:
		return server.Text("Elicitation completed: action=decline"), nil
	case roundtrip.Cancelled:
		return server.Text("Elicitation completed: action=cancel"), nil
	}
	return roundtrip.InputRequired(question), nil
}

func greet(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	who, ok := askName.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(askName.Elicit("What is your name?")), nil
	}
	return server.Text("Hello, " + who.Name + "!"), nil
}

func capital(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	said, ok := roundtrip.Sampled(ctx, "capital_question")
	if !ok {
		return roundtrip.InputRequired(roundtrip.CreateMessage("capital_question",
			prompt("What is the capital of France?", 100))), nil
	}
	return &protocol.CallToolResult{Content: said.Content}, nil
}

func prompt(text string, maxTokens int64) *protocol.CreateMessage {
	return &protocol.CreateMessage{MaxTokens: maxTokens, Messages: []protocol.SamplingMessage{
		{Role: protocol.User, Content: []protocol.Content{&protocol.TextContent{Text: text}}}}}
}

func after(text string, said protocol.CreateMessageResult) *protocol.CallToolResult {
	return &protocol.CallToolResult{Content: append([]protocol.Content{
		&protocol.TextContent{Text: text}}, said.Content...)}
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

// remember stores a value with the question. The client carries it, but cannot read or change it.
func remember(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	answer, ok := confirm.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(confirm.Elicit("Please confirm"),
			roundtrip.WithState("state-ok")), nil
	}
	kept, _ := roundtrip.State[string](ctx)
	return server.Text(fmt.Sprintf("%s, confirmed: %t", kept, answer.OK)), nil
}

func confirmed(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	answer, ok := confirm.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(confirm.Elicit("Please confirm")), nil
	}
	return server.Text(fmt.Sprintf("confirmed: %t", answer.OK)), nil
}

// The handler several asks three questions in one round, and repeats those that the client skipped.
func several(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	var missing []roundtrip.Item
	who, ok := askName.AcceptedContent(ctx)
	if !ok {
		missing = append(missing, askName.Elicit("What is your name?"))
	}
	greeting, ok := roundtrip.Sampled(ctx, "greeting")
	if !ok {
		missing = append(missing,
			roundtrip.CreateMessage("greeting", prompt("Generate a greeting", 50)))
	}
	roots, ok := roundtrip.Roots(ctx, "client_roots")
	if !ok {
		missing = append(missing, roundtrip.ListRoots("client_roots"))
	}
	if len(missing) > 0 {
		return roundtrip.InputRequired(missing...), nil
	}
	return after(fmt.Sprintf("%s has %d directories, and %s says:", who.Name, len(roots),
		greeting.Model), greeting), nil
}

// The handler steps asks a question that depends on an earlier answer, which round three still has.
func steps(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	who, ok := step1.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(step1.Elicit("Step 1: What is your name?")), nil
	}
	likes, ok := step2.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(
			step2.Elicit("Step 2: What is your favorite color, " + who.Name + "?")), nil
	}
	return server.Text(who.Name + " likes " + likes.Color), nil
}
