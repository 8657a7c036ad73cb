package mcpgo_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestEventsOfFailures: the observer hears what a person decided and what a
// handler failed with, and the client gets what it got before, or a reference.
func TestEventsOfFailures(t *testing.T) {
	type sure struct {
		Why string `json:"why"`
	}
	down := errors.New("db at 10.0.0.7 is down")
	for _, revision := range []string{modern, v20251125} {
		for _, hide := range []bool{false, true} {
			t.Run(revision, func(t *testing.T) {
				h, s := &bugs{}, newHostServer()
				s.AddTool(mcp.NewTool("t"), func(ctx context.Context,
					_ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if _, err := roundtrip.Ask[sure](ctx, "sure", "Sure?"); err != nil {
						return nil, err
					}
					return nil, down
				})
				a := install(t, s, &mcpgo.Options{Options: roundtrip.Options{Observer: h,
					HideErrors: hide}})
				endpoint, _ := serveHTTP(t, a, s)
				who := newPerson(map[string]string{"Sure?": `{"why":"because"}`})
				got, err := dialRondo(t, endpoint, revision, who).tool(within(t), "t", nil)
				if err != nil {
					got = err.Error()
				}
				var failed []event.HandlerFailed
				var answered []event.Answered
				for _, e := range h.events {
					switch e := e.(type) {
					case event.HandlerFailed:
						failed = append(failed, e)
					case event.Answered:
						answered = append(answered, e)
					}
				}
				if len(failed) != 1 || !errors.Is(failed[0].Err, down) || len(answered) != 1 ||
					answered[0].Decision != event.Accepted {
					t.Fatalf("events %+v", h.events)
				}
				if !hide && !strings.Contains(got, "10.0.0.7") {
					t.Errorf("got %q", got)
				}
				if hide && (!strings.Contains(got, "internal failure; reference "+
					failed[0].Reference) || strings.Contains(got, "10.0.0.7")) {
					t.Errorf("got %q, reference %q", got, failed[0].Reference)
				}
			})
		}
	}
}
