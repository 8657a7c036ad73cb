package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// addNotifying registers tools that talk to the client while they work.
func addNotifying(srv *server.Server) {
	add(srv, "test_tool_with_progress", "Reports progress while it works.", progress)
	server.AddTool(srv, server.Tool{
		Name: "test_slow_tool", Description: "Takes as many seconds as it is told, and reports progress every second.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"seconds":{"type":"integer","minimum":1,"maximum":600,"default":5}},"additionalProperties":false}`),
	}, workSlowly)
	add(srv, "test_logging_tool",
		"Sends log messages, if the client asks for them.", logs)
}

// stepTime is how long one step of the work takes.
const stepTime = 50 * time.Millisecond

// progress works in steps. A client that sends no progress token gets the
// result alone; the handler need not know.
func progress(ctx context.Context, call *server.ToolCall, _ nothing) (outcome, error) {
	for done := 0.0; ; done += 50 {
		if err := call.Progress(ctx, done, 100, ""); err != nil {
			return nil, err
		}
		if done == 100 {
			return server.Text("Tool execution completed with progress."), nil
		}
		if err := wait(ctx, stepTime); err != nil {
			return nil, err
		}
	}
}

type slowWork struct {
	Seconds int `json:"seconds"`
}

// workSlowly is for trying out what clients and everything on the way to them
// make of a call that takes its time: timeouts, progress, cancelling.
func workSlowly(ctx context.Context, call *server.ToolCall, in slowWork) (outcome, error) {
	seconds := cmp.Or(in.Seconds, 5)
	for done := range seconds {
		message := fmt.Sprintf("%d of %d seconds", done, seconds)
		if err := call.Progress(ctx, float64(done), float64(seconds), message); err != nil {
			return nil, err
		}
		if err := wait(ctx, time.Second); err != nil {
			return nil, err
		}
	}
	return server.Text(fmt.Sprintf("Took %d seconds.", seconds)), nil
}

// logs says three things, of which the client gets those that are at least as
// severe as the level it named in the request, and nothing without one.
func logs(ctx context.Context, call *server.ToolCall, _ nothing) (outcome, error) {
	for _, message := range []struct {
		level protocol.LoggingLevel
		text  string
	}{
		{protocol.LevelDebug, "looking at the arguments"},
		{protocol.LevelInfo, "tool execution started"},
		{protocol.LevelInfo, "tool execution completed"},
	} {
		if err := call.Log(ctx, message.level, "everything", message.text); err != nil {
			return nil, err
		}
	}
	return server.Text("Said all there is to log."), nil
}
