package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

// newTasksUpstream has a tool that can be a task and one that must be.
func newTasksUpstream(t *testing.T) *server.Server {
	srv := newServer(t, nil)
	added, err := tasks.New(srv, nil)
	noError(t, err)
	t.Cleanup(func() { _ = added.Shutdown(context.Background()) })
	work := func(ctx context.Context, _ *server.ToolCall, _ struct{}) (outcome, error) {
		if err := roundtrip.BeginTask(ctx); err != nil {
			return nil, err
		}
		sure, err := roundtrip.Ask[confirmation](ctx, "sure", "Sure?")
		if err != nil {
			return nil, err
		}
		if !sure.Sure || roundtrip.InTask(ctx) {
			return server.ErrorText("unsure, or in a task"), nil
		}
		return server.Text("worked"), nil
	}
	server.AddTool(srv, server.Tool{Name: "can", Task: server.TaskCan}, work)
	server.AddTool(srv, server.Tool{Name: "must", Task: server.TaskMust}, work)
	return srv
}

// Clients of a gateway get foreground results and true refusals, never task handles.
func TestTasksAreNotPassedOn(t *testing.T) {
	forEachPairing(t, func(t *testing.T, clientEra, upstreamEra protocol.Era) {
		opts := before(ops(serveHTTP(t, newTasksUpstream(t)), upstreamEra))
		opts.Server.Capabilities.Extensions = map[string]json.RawMessage{
			protocol.ExtensionTasks: json.RawMessage("{}"), "example.com/x": json.RawMessage("{}")}
		p := &person{}
		c := connectWith(t, startGateway(t, opts),
			client.Options{ElicitForm: p.fill, Era: clientEra, Tasks: true}, "ops_must")
		found, err := c.Discover(t.Context())
		if clientEra == protocol.Modern && (err != nil || len(found.Capabilities.Extensions) != 1) {
			t.Errorf("declared: %v, %v", found, err)
		}
		result, handle, err := c.BeginTask(t.Context(),
			&protocol.CallToolParams{Name: "ops_can", Arguments: json.RawMessage("{}")})
		if err != nil || handle != nil || textOf(result) != "worked" || len(p.shown) != 1 {
			t.Errorf("can: %q, handle %v, %v, asked %q", textOf(result), handle, err, p.shown)
		}
		result, handle, err = c.BeginTask(t.Context(),
			&protocol.CallToolParams{Name: "ops_must", Arguments: json.RawMessage("{}")})
		if upstreamEra == protocol.Legacy { // legacy upstreams have no tasks
			if err != nil || textOf(result) != "worked" {
				t.Errorf("must: %q, %v", textOf(result), err)
			}
			return
		}
		refused := textOf(result)
		if err != nil {
			refused = err.Error()
		}
		if handle != nil || !strings.Contains(refused, "does not let it use") ||
			!strings.Contains(refused, protocol.ExtensionTasks) || len(p.shown) != 1 {
			t.Errorf("must: %q, handle %v, asked %q", refused, handle, p.shown)
		}
	})
}
