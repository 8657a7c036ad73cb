package mcpgo_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestURLErrorInASessionIsUnchanged: the revision that has the error gets it unchanged.
func TestURLErrorInASessionIsUnchanged(t *testing.T) {
	s := newHostServer()
	addMistakes(s)
	install(t, s, nil)
	got := live(t.Context(), s, nil, "url error")
	if got.Error.Code != -32042 || !strings.Contains(got.body, `"elicitationId":"visit-1"`) {
		t.Errorf("got %s", got.body)
	}
}

// TestVisitInASessionHasAnID: the id that only one revision has is made up for it.
func TestVisitInASessionHasAnID(t *testing.T) {
	s := newHostServer()
	s.AddTool(mcp.NewTool("away"),
		func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answer, ok := mcpgo.Elicited(ctx, "go")
			if !ok {
				return mcpgo.ToolInput(roundtrip.ElicitURL("go", "Go?", visitURL)), nil
			}
			return mcp.NewToolResultText(string(answer.Action)), nil
		})
	install(t, s, nil)
	id := ""
	got := live(t.Context(), s, elicitFunc(func(_ context.Context,
		r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
		id = r.Params.ElicitationID
		return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
			Action: mcp.ElicitationResponseActionAccept}}, nil
	}), "away")
	if got.text() != "accept" || id == "" {
		t.Errorf("got %s, id %q", got.body, id)
	}
}

// TestStateAloneInASession: a handler that only wants to be called again is.
func TestStateAloneInASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHostServer()
		s.AddTool(mcp.NewTool("poll"),
			func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if n, _ := roundtrip.State[int](ctx); n < 3 {
					return mcpgo.ToolInput(roundtrip.WithState(n + 1)), nil
				}
				return mcp.NewToolResultText("ready"), nil
			})
		install(t, s, nil)
		if got := live(t.Context(), s, nil, "poll"); got.text() != "ready" {
			t.Errorf("got %s", got.body)
		}
	})
}
