package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

type (
	reach struct {
		Username string `json:"username" jsonschema:"your name here"`
		Email    string `json:"email" format:"email"`
	}
	// profile has a default of every kind that has one.
	profile struct {
		Name     string  `json:"name,omitempty" default:"John Doe"`
		Age      int     `json:"age,omitempty" default:"30"`
		Score    float64 `json:"score,omitempty" default:"95.5"`
		Status   string  `json:"status,omitempty" enum:"active,inactive,pending" default:"active"`
		Verified bool    `json:"verified,omitempty" default:"true"`
	}
)

var (
	askContact = roundtrip.MustQuestion[reach]("contact")
	askProfile = roundtrip.MustQuestion[profile]("profile")
)

// choices is a form with every way to choose, the one of older revisions
// included, which no struct is derived to.
const choices = `{"type":"object","properties":{
	"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
	"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
	"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
	"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
	"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}
}}`

// addForms registers tools that show what the person answered. Like all tools
// that ask they serve clients of either era: those that retry with the answers
// and those that are asked while the call runs.
func addForms(srv *server.Server) {
	add(srv, "test_elicitation",
		"Asks the person for a name and an email address.", reachable)
	add(srv, "test_elicitation_sep1034_defaults",
		"Asks with a form that has defaults.",
		func(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
			return shown(askProfile.Answer(ctx), askProfile.Elicit("Please check your profile."))
		})
	add(srv, "test_elicitation_sep1330_enums",
		"Asks with a form that has every way to choose.",
		func(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
			return shown(roundtrip.RawAnswer(ctx, "choices"),
				roundtrip.ElicitSchema("choices", "Please choose.", json.RawMessage(choices)))
		})
	add(srv, "test_sampling", "Has the client's model answer a prompt.", sample)
	add(srv, "test_tool_with_logging", "Sends log messages while it works.", chatter)
	add(srv, "test_reconnection",
		"Hangs up while it works, where the client can come back for the result.", hangUp)
}

type message struct {
	Message string `json:"message" jsonschema:"what to tell the person"`
}

func reachable(ctx context.Context, _ *server.ToolCall, in message) (outcome, error) {
	return shown(askContact.Answer(ctx), askContact.Elicit(in.Message))
}

// shown says what the answer is, and asks for it where there is none.
func shown[T any](reply roundtrip.Reply[T],
	question roundtrip.Question) (outcome, error) {
	switch reply.Outcome {
	case roundtrip.Accepted:
		content, err := json.Marshal(reply.Content)
		if err != nil {
			return nil, err
		}
		return server.Text(fmt.Sprintf("Elicitation completed: action=accept, content=%s", content)), nil
	case roundtrip.Declined:
		return server.Text("Elicitation completed: action=decline"), nil
	case roundtrip.Cancelled:
		return server.Text("Elicitation completed: action=cancel"), nil
	}
	return roundtrip.InputRequired(question), nil
}

type samplingPrompt struct {
	Prompt string `json:"prompt" jsonschema:"what to ask the model"`
}

func sample(ctx context.Context, _ *server.ToolCall, in samplingPrompt) (outcome, error) {
	said, ok := roundtrip.Sampled(ctx, "sample")
	if !ok {
		return roundtrip.InputRequired(
			roundtrip.CreateMessage("sample", prompt(in.Prompt, 100))), nil
	}
	return blocks(append([]protocol.Content{&protocol.TextContent{Text: "LLM response:"}},
		said.Content...)...)
}

// chatter logs a little, with pauses in between.
func chatter(ctx context.Context, call *server.ToolCall, _ nothing) (outcome, error) {
	for _, text := range []string{"Tool execution started", "Tool processing data",
		"Tool execution completed"} {
		if err := call.Log(ctx, protocol.LevelInfo, "everything", text); err != nil {
			return nil, err
		}
		if err := wait(ctx, stepTime); err != nil {
			return nil, err
		}
	}
	return server.Text("Tool with logging executed successfully"), nil
}

// hangUp closes its stream. Where that is not possible the client simply waits.
func hangUp(ctx context.Context, call *server.ToolCall, _ nothing) (outcome, error) {
	if err := call.CloseStream(ctx,
		100*time.Millisecond); err != nil && !errors.Is(err, server.ErrCannotClose) {
		return nil, err
	}
	if err := wait(ctx, 2*stepTime); err != nil {
		return nil, err
	}
	return server.Text("Reconnection test completed successfully"), nil
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done(): // the client has gone
		return context.Cause(ctx)
	}
}
