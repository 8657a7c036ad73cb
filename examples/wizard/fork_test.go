package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestForkedOrder: without a guard a client may take the order back to where it
// was and answer otherwise. It is then another order, and is paid for as one.
func TestForkedOrder(t *testing.T) {
	ledger := &ledger{new(strings.Builder), map[string]string{}}
	srv, err := newServer(&shop{prices: &market{}, bank: ledger, notify: func(string) {}},
		roundtrip.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(srv, &client.Options{Era: protocol.Modern,
		ElicitForm: func(context.Context, *client.FormQuestion) (*protocol.ElicitResult, error) {
			return nil, errors.New("Begin and Resume ask nobody")
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); _ = srv.Close() })
	resume := func(p *client.Pending, key, content string) (protocol.Result, *client.Pending) {
		t.Helper()
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again := &client.Pending{}
		if err := json.Unmarshal(data, again); err != nil {
			t.Fatal(err)
		}
		if err := again.Answer(key, &protocol.ElicitResult{Action: protocol.ActionAccept,
			Content: json.RawMessage(content)}); err != nil {
			t.Fatal(err)
		}
		result, next, err := c.Resume(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		return result, next
	}
	_, begun, err := c.Begin(t.Context(),
		&protocol.CallToolParams{Name: "provision", Arguments: json.RawMessage(`{"name":"books"}`)})
	if err != nil {
		t.Fatal(err)
	}
	_, sizing := resume(begun, "region-1", `{"name":"eu"}`)
	order := func(size string) string {
		_, review := resume(sizing, "size-1", size)
		result, _ := resume(review, "review-1", `{"change":"nothing"}`)
		return result.(*protocol.CallToolResult).Content[0].(*protocol.TextContent).Text
	}
	small, large := order(`{"gigabytes":1}`), order(`{"gigabytes":1000}`)
	if len(ledger.receipts) != 2 {
		t.Errorf("%d charges for %q and %q, want one for each", len(ledger.receipts), small, large)
	}
}
