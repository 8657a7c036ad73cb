package main

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Forms of the steps, one after the other.
type (
	stepName struct {
		Name string `json:"name"`
	}
	stepColor struct {
		Color string `json:"color"`
	}
)

var (
	step1 = roundtrip.MustQuestion[stepName]("step1")
	step2 = roundtrip.MustQuestion[stepColor]("step2")
)

// addWizards registers tools that need more than one answer, or remember
// something between the question and the answer.
func addWizards(srv *server.Server) {
	add(srv, "test_input_required_result_request_state",
		"Keeps something in mind while it asks.", remember)
	add(srv, "test_input_required_result_tampered_state",
		"Asks, and refuses a state that was changed.", guarded)
	add(srv, "test_input_required_result_multiple_inputs",
		"Asks person, model and client at once.", several)
	add(srv, "test_input_required_result_multi_round",
		"Asks one thing after the other.", steps)
}

// remember sends what it keeps with the question and gets it back with the
// answer. The client carries it and can neither read nor change it.
func remember(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	answer, ok := confirm.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(confirm.Elicit("Please confirm"),
			roundtrip.WithState("state-ok")), nil
	}
	kept, _ := roundtrip.State[string](ctx)
	return server.Text(fmt.Sprintf("%s, confirmed: %t", kept, answer.OK)), nil
}

// guarded has nothing to do with what it is named for: a state that is not
// exactly one that was sent to this caller, for this tool and these arguments,
// is refused before the handler runs.
func guarded(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	answer, ok := confirm.AcceptedContent(ctx)
	if !ok {
		return roundtrip.InputRequired(confirm.Elicit("Please confirm")), nil
	}
	return server.Text(fmt.Sprintf("confirmed: %t", answer.OK)), nil
}

// several asks three questions in one round, of which the client may answer
// some first; those that were answered are not asked again.
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
	said := fmt.Sprintf("%s has %d directories, and %s says:", who.Name, len(roots), greeting.Model)
	return blocks(append([]protocol.Content{&protocol.TextContent{Text: said}},
		greeting.Content...)...)
}

// steps asks a question that depends on the answer before. The first answer
// is still there in the third round.
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
