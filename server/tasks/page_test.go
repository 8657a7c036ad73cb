package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/tasks"
)

type approval struct {
	Reason string `json:"reason"`
}

type order struct {
	Number string `json:"number"`
}

func refund(ctx context.Context, _ *server.ToolCall, in order) (
	protocol.CallToolOutcome, error) {
	if err := roundtrip.BeginTask(ctx); err != nil {
		return nil, err
	}
	tasks.StatusMessage(ctx, "waiting for an approval")
	amount, err := roundtrip.Memo(ctx, "amount", func(context.Context) (int, error) {
		return len(in.Number), nil
	})
	if err != nil {
		return nil, err
	}
	why, err := roundtrip.Ask[approval](ctx, "approval", fmt.Sprintf("Refund %d?", amount))
	if err != nil {
		return nil, err
	}
	return server.Text("refunded: " + why.Reason), nil
}

// README.md is executed.
func TestPage(t *testing.T) {
	srv, err := server.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	added, err := tasks.New(srv, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer added.Shutdown(context.Background())
	server.AddTool(srv, server.Tool{Name: "refund", Task: server.TaskCan}, refund)
	c, err := client.New(srv, &client.Options{Tasks: true, ElicitForm: func(context.Context,
		*client.FormQuestion) (*protocol.ElicitResult, error) {
		return client.Accept(approval{Reason: "broken"})
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var kept []byte
	keep := func(t *client.Task) (err error) {
		kept, err = json.Marshal(t)
		return err
	}
	result, task, err := c.BeginTask(t.Context(), &protocol.CallToolParams{Name: "refund",
		Arguments: json.RawMessage(`{"number":"7"}`)})
	if err != nil || task == nil {
		t.Fatal(result, err)
	}
	if err := keep(task); err != nil {
		t.Fatal(err)
	}
	var again client.Task
	if err := json.Unmarshal(kept, &again); err != nil {
		t.Fatal(err)
	}
	result, err = c.FollowTask(t.Context(), &again, keep)
	if err != nil {
		t.Fatal(err)
	}
	text := result.Content[0].(*protocol.TextContent).Text
	if text != "refunded: broken" || !strings.Contains(string(kept), `"approval"`) {
		t.Errorf("%q, kept %s", text, kept)
	}
}
