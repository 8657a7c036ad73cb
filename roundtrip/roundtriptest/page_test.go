package roundtriptest_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
)

// TestClientInProcess is the first example of README.md.
func TestClientInProcess(t *testing.T) {
	srv, err := newReleasing(&roundtriptest.Effects{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(srv, &client.Options{
		ElicitForm: func(_ context.Context, q *client.FormQuestion) (*protocol.ElicitResult,
			error) {
			return client.Accept(map[string]any{"reason": "tested"})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(t.Context(), "release", Release{Env: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	want := "released to prod: tested"
	if got := result.Content[0].(*protocol.TextContent).Text; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLostResponse sends a flow's last leg twice, as after a lost response.
func TestLostResponse(t *testing.T) {
	effects := &roundtriptest.Effects{}
	srv, err := newReleasing(effects)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(srv, &client.Options{Manual: &protocol.ClientCapabilities{
		Elicitation: &protocol.ElicitationCapability{Form: true}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, pending, err := c.Begin(t.Context(), &protocol.CallToolParams{
		Name: "release", Arguments: json.RawMessage(`{"env":"prod"}`)})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Accept(Approval{Reason: "tested"})
	if err != nil {
		t.Fatal(err)
	}
	if err := pending.Answer("approval", answer); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, next, err := c.Resume(t.Context(), pending)
		if err != nil || next != nil {
			t.Fatal(next, err)
		}
	}
	// This release is repeated: it has neither a key nor a guard.
	if n := effects.Count("release"); n != 2 {
		t.Errorf("%d releases, want 2", n)
	}
}
