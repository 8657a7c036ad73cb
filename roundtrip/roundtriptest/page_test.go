package roundtriptest_test

import (
	"context"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/roundtriptest"
)

// TestClientInProcess is the first thing that README.md shows.
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
