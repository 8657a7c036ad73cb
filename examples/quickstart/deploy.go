package main

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// Deploy is the tool's input. The input schema is derived from it.
type Deploy struct {
	Env string `json:"env" jsonschema:"where to deploy to"`
}

// Confirmation is the person's form.
type Confirmation struct {
	Reason string `json:"reason" title:"Reason" jsonschema:"why now?" minLength:"3"`
}

// confirm is a question, which is checked when the program starts.
var confirm = roundtrip.MustQuestion[Confirmation]("confirm")

// deploy asks before it acts. Each round runs it from its start.
func deploy(ctx context.Context, call *server.ToolCall,
	in Deploy) (protocol.CallToolOutcome, error) {
	switch answer := confirm.Answer(ctx); answer.Outcome {
	case roundtrip.Accepted:
		return server.Text("deployed to " + in.Env + ": " + answer.Content.Reason), nil
	case roundtrip.Declined, roundtrip.Cancelled:
		return server.Text("left " + in.Env + " alone"), nil
	default: // missing or invalid
		return roundtrip.InputRequired(confirm.Elicit("Deploy to " + in.Env + "?")), nil
	}
}
