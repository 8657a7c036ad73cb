package mcpgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/protocol"
)

const beat = "waiting for an answer"

func progressOf(token any, progress float64, message string) mcp.JSONRPCNotification {
	fields := map[string]any{
		"progressToken": token, "progress": progress, "total": 9, "message": message,
	}
	return mcp.JSONRPCNotification{JSONRPC: "2.0", Notification: mcp.Notification{
		Method: protocol.NotifyProgress, Params: mcp.NotificationParams{AdditionalFields: fields},
	}}
}

// In a process nothing is encoded on the way: the client gets plain values.
func TestHeartbeatsInAProcess(t *testing.T) {
	router, err := elicitation.New(&elicitation.Options{Heartbeat: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, "")
		if err != nil {
			return nil, err
		}
		defer call.End()
		question := json.RawMessage(`{"message":"Sure?","requestedSchema":` + schema + `}`)
		answer, err := call.Elicit(ctx, question, nil)
		if err != nil {
			return nil, err
		}
		if err := mcpgo.RelayProgress(ctx, call, progressOf("upstream's", 2, "two")); err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(string(answer.Action)), nil
	}
	s.AddTool(mcp.NewTool("form"), handler)
	progress := make(chan map[string]any, 1000)
	c, err := client.NewInProcessClientWithOptions(s, client.WithElicitationHandler(answering(
		func(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
			if p := receive(t, progress); p["progressToken"] != "p" || p["message"] != beat {
				t.Errorf("heard %v", p)
			}
			return result("accept", map[string]any{"reason": "r"}), nil
		})))
	if err != nil {
		t.Fatal(err)
	}
	c.OnNotification(func(n mcp.JSONRPCNotification) { progress <- n.Params.AdditionalFields })
	if err := open(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var r mcp.CallToolRequest
	r.Params.Name, r.Params.Meta = "form", &mcp.Meta{ProgressToken: "p"}
	if got, err := c.CallTool(within(t), r); err != nil || got.IsError {
		t.Fatalf("got %+v, %v", got, err)
	}
	for {
		p := receive(t, progress)
		if value, ok := p["progress"].(float64); !ok || p["progressToken"] != "p" {
			t.Fatalf("heard %v", p)
		} else if value == 2 {
			return
		}
	}
}

// A client that does not read holds up neither the upstream nor, later, the truth: what
// did not leave in time is not written when the client reads again.
func TestProgressToAClientThatDoesNotRead(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	stuck, read := make(chan struct{}), make(chan struct{})
	handler := func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		call, err := clients.Begin(ctx, "")
		if err != nil {
			return nil, err
		}
		defer call.End()
		relay := func(ctx context.Context, progress float64) error {
			return mcpgo.RelayProgress(ctx, call, progressOf("upstream's", progress, ""))
		}
		if err := relay(ctx, 1); err != nil { // is being written
			return nil, err
		}
		brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		for progress := 2.0; progress < 4; progress++ { // one has to wait, one need not even wait
			if relay(brief, progress) == nil {
				t.Errorf("%v was taken", progress)
			}
			brief = ctx
		}
		close(stuck)
		for relay(ctx, 4) != nil && ctx.Err() == nil { // until the client has read
			runtime.Gosched()
		}
		select {
		case <-read: // mcp-go may write an answer just before what it has encoded
		case <-ctx.Done():
		}
		return mcp.NewToolResultText("done"), nil
	}
	s.AddTool(mcp.NewTool("form"), handler)
	out, in := serveLines(t, s)
	lines := bufio.NewScanner(out)
	say := func(text string) {
		if _, err := io.WriteString(in, text+"\n"); err != nil {
			t.Error(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	lines.Scan()
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"form",` +
		`"_meta":{"progressToken":"p"}}}`)
	receive(t, stuck)
	var heard []float64
	for lines.Scan() {
		var m struct {
			ID     int
			Params protocol.Progress
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.ID == 2 {
			break
		}
		if heard = append(heard, m.Params.Progress); m.Params.Progress == 4 {
			close(read)
		}
	}
	if want := []float64{1, 4}; !slices.Equal(heard, want) {
		t.Errorf("the client heard %v, want %v", heard, want)
	}
}
