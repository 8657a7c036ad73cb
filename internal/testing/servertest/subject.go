package servertest

// This file has handlers for tests of whole servers. Package interop adds its own.

import (
	"context"
	"errors"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
)

// These are the forms of the subject's tools.
type (
	Confirmation struct {
		Reason string `json:"reason" jsonschema:"why now?" minLength:"3"`
	}
	Region struct {
		Name string `json:"name" enum:"eu,us" enumTitles:"Europe,America"`
	}
	Contact struct {
		Email string `json:"email" format:"email"`
	}
)

// Info returns the subject's name and version.
func Info() protocol.Implementation {
	return protocol.Implementation{Name: "subject", Version: "1.0.0"}
}

// Register adds the tools plain, deploy, sign_in, poll and fail, and the prompt brief.
func Register(srv *server.Server) {
	server.AddRawTool(srv, server.Tool{Name: "plain", Description: "Asks nothing."}, plain)
	server.AddTool(srv, server.Tool{Name: "deploy", Description: "Asks once."}, deploy)
	visit := server.Tool{Name: "sign_in", Description: "Asks to visit a URL."}
	server.AddRawTool(srv, visit, signIn)
	server.AddRawTool(srv, server.Tool{Name: "poll", Description: "Asks to come back."}, poll)
	server.AddRawTool(srv, server.Tool{Name: "fail", Description: "Asks, then fails."}, fail)
	server.AddPrompt(srv, server.Prompt{
		Name: "brief", Description: "Asks who reads it.",
		Arguments: []protocol.PromptArgument{{Name: "topic", Required: true}},
	}, brief)
}

// Sampling returns the tools' question to the client's model.
func Sampling() *protocol.CreateMessage {
	text := []protocol.Content{&protocol.TextContent{Text: "Summarize."}}
	return &protocol.CreateMessage{
		MaxTokens: 100, SystemPrompt: "Be brief.",
		Messages: []protocol.SamplingMessage{{Role: protocol.User, Content: text}},
	}
}

func plain(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
	return server.Text("plain"), nil
}

// DeployInput is the argument of deploy.
type DeployInput struct {
	Env string `json:"env" jsonschema:"where to deploy to"`
}

// deploy asks once. It distinguishes a refusal from a missing answer.
func deploy(
	ctx context.Context, _ *server.ToolCall, in DeployInput,
) (protocol.CallToolOutcome, error) {
	switch answer := roundtrip.Answer[Confirmation](ctx, "confirm"); answer.Outcome {
	case roundtrip.Accepted:
		return server.Text("deployed to " + in.Env + ": " + answer.Content.Reason), nil
	case roundtrip.Declined, roundtrip.Cancelled:
		return server.Text("left " + in.Env + " alone: " + answer.Outcome.String()), nil
	}
	question := roundtrip.Elicit[Confirmation]("confirm", "Deploy to "+in.Env+"?")
	return roundtrip.InputRequired(question), nil
}

func signIn(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if outcome := roundtrip.Visited(ctx, "login"); outcome != roundtrip.Missing {
		return server.Text("visit " + outcome.String()), nil
	}
	return roundtrip.InputRequired(SignIn()), nil
}

// SignIn returns the question for a visit to a URL.
func SignIn() roundtrip.Question {
	return roundtrip.ElicitURL("login", "Sign in", "https://example.com/in")
}

// poll makes the client come back twice, without a question.
func poll(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if n, _ := roundtrip.State[int](ctx); n < 2 {
		return roundtrip.InputRequired(roundtrip.WithState(n + 1)), nil
	}
	return server.Text("ready"), nil
}

func fail(ctx context.Context, _ *server.ToolCall) (protocol.CallToolOutcome, error) {
	if roundtrip.Answer[Confirmation](ctx, "confirm").Outcome == roundtrip.Accepted {
		return nil, errors.New("the disk is full")
	}
	return roundtrip.InputRequired(roundtrip.Elicit[Confirmation]("confirm", "Fail?")), nil
}

func brief(ctx context.Context, call *server.PromptCall) (protocol.GetPromptOutcome, error) {
	who, ok := roundtrip.AcceptedContent[Contact](ctx, "contact")
	if !ok {
		return roundtrip.InputRequired(roundtrip.Elicit[Contact]("contact", "Who reads it?")), nil
	}
	text := server.UserText("Write about " + call.Arguments["topic"] + " for " + who.Email)
	return &protocol.GetPromptResult{Messages: []protocol.PromptMessage{text}}, nil
}
