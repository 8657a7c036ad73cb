package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

func addTasks(srv *server.Server) error {
	if _, err := tasks.New(srv, nil); err != nil {
		return err
	}
	server.AddTool(srv, server.Tool{Name: "greet", Description: "Greets, at once."}, greetNow)
	tool := func(use server.TaskMode, name, description string) server.Tool {
		return server.Tool{Name: name, Description: description, Task: use}
	}
	const can, must = server.TaskCan, server.TaskMust
	server.AddTool(srv, tool(can, "slow_compute", "Takes a while."), slowCompute)
	server.AddTool(srv, tool(must, "failing_job", "Fails after a while."),
		job(func() (outcome, error) {
			return server.ErrorText("the job failed, as it always does"), nil
		}))
	server.AddTool(srv, tool(must, "protocol_error_job", "Breaks after a while."),
		job(func() (outcome, error) {
			return nil, protocol.Errorf(protocol.CodeInternalError,
				"the job broke, as it always does")
		}))
	server.AddTool(srv, tool(can, "confirm_delete", "Asks before it deletes nothing."),
		confirmDelete)
	server.AddTool(srv, tool(can, "multi_input", "Asks two questions at once."), multiInput)
	server.AddTool(srv, tool(must, "test_tool_with_task", "Asks for a name, then takes a while."),
		greetInTask)
	return nil
}

func greetNow(_ context.Context, _ *server.ToolCall, in userName) (outcome, error) {
	return server.Text("Hello, " + in.Name + "!"), nil
}

type computation struct {
	Seconds float64 `json:"seconds" jsonschema:"how long" minimum:"0" maximum:"60"`
	Label   string  `json:"label,omitempty"`
}

func slowCompute(ctx context.Context, _ *server.ToolCall, in computation) (outcome, error) {
	if in.Seconds >= 1 {
		if err := roundtrip.BeginTask(ctx); err != nil {
			return nil, err
		}
	}
	if err := waiting.Sleep(ctx, time.Duration(in.Seconds*float64(time.Second))); err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("computed %q in %g s", in.Label, in.Seconds)), nil
}

func runJob(ctx context.Context) error {
	if err := roundtrip.BeginTask(ctx); err != nil {
		return err
	}
	return waiting.Sleep(ctx, time.Second)
}

// job returns a handler that takes a while and then ends with end.
func job(end func() (outcome, error)) question {
	return func(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
		if err := runJob(ctx); err != nil {
			return nil, err
		}
		return end()
	}
}

type deletion struct {
	Filename string `json:"filename"`
}

type goAhead struct {
	Confirm bool `json:"confirm" jsonschema:"go ahead?"`
}

func confirmDelete(ctx context.Context, _ *server.ToolCall, in deletion) (outcome, error) {
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	sure, err := roundtrip.Ask[goAhead](ctx, "confirm", "Delete "+in.Filename+"?")
	if err != nil {
		return nil, err
	}
	return server.Text(fmt.Sprintf("%s deleted: %t", in.Filename, sure.Confirm)), nil
}

func multiInput(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	name, sure := askName.Answer(ctx), confirmTask.Answer(ctx)
	switch {
	case name.Outcome == roundtrip.Accepted && sure.Outcome == roundtrip.Accepted:
		return server.Text(fmt.Sprintf("%s: %t", name.Content.Name, sure.Content.Confirm)), nil
	case name.Outcome == roundtrip.Missing || sure.Outcome == roundtrip.Missing:
		return roundtrip.InputRequired(askName.Elicit("What is your name?"),
			confirmTask.Elicit("Go ahead?")), nil
	}
	return nil, errors.New("not both were answered")
}

var confirmTask = roundtrip.MustQuestion[goAhead]("confirm")

func greetInTask(ctx context.Context, _ *server.ToolCall, _ nothing) (outcome, error) {
	name, err := roundtrip.Ask[userName](ctx, "user_name", "What is your name?")
	if err != nil {
		return nil, err
	}
	if err := runJob(ctx); err != nil {
		return nil, err
	}
	return server.Text("Hello, " + name.Name + "!"), nil
}
