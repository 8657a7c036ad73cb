package middleware_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

type thinker struct{}

func (thinker) Push(ctx context.Context, _ protocol.InputRequest,
	_, _ func()) (json.RawMessage, error) {
	time.Sleep(time.Minute)
	return json.RawMessage(`{"action":"accept","content":{}}`), ctx.Err()
}

// Adapters have observers, but none of our middleware.
func TestObserversOfAnAdapterSeeWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch(t, nil, nil)
		funnel, err := roundtrip.NewFunnel(&roundtrip.Options{Observer: w,
			Limits: roundtrip.Limits{Waiting: 1}})
		noError(t, err)
		ask := func() error {
			_, err := funnel.Do(t.Context(), roundtrip.Call{
				Version: protocol.V20251125, Method: protocol.MethodCallTool, Target: "deploy",
				Push: thinker{},
				Capabilities: protocol.ClientCapabilities{
					Elicitation: &protocol.ElicitationCapability{Form: true}},
			}, func(ctx context.Context) (protocol.Result, error) {
				_, err := roundtrip.Ask[struct{}](ctx, "sure", "Sure?")
				return &protocol.CallToolResult{}, err
			})
			return err
		}
		done := make(chan error, 1)
		go func() { done <- ask() }()
		synctest.Wait()
		w.wantValue(1, "rondo_requests_waiting")
		if err := ask(); err == nil {
			t.Error("a second call waits as well")
		}
		noError(t, <-done)
		for name, want := range map[string]float64{"rondo_requests_waiting": 0,
			"rondo_request_waiting_seconds": 60} {
			wantEqual(t, fmt.Sprintf("%s adds up to", name), sum(t, w.registry, name), want)
		}
		for name, want := range map[string]map[string]any{
			"mcp.wait_began": {"target": "deploy", "method": "tools/call"},
			"mcp.wait_ended": {"waited_ms": 60000},
			"mcp.quota_exceeded": {"resource": "waiting", "limit": "server",
				"retry_after_ms": 5000},
		} {
			wantFields(t, w.entry(name), want)
		}
	})
}
