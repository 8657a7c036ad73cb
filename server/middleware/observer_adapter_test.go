package middleware_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// thinker answers every question after a minute.
type thinker struct{}

func (thinker) Push(ctx context.Context, _ protocol.InputRequest,
	_, _ func()) (json.RawMessage, error) {
	time.Sleep(time.Minute)
	return json.RawMessage(`{"action":"accept","content":{}}`), ctx.Err()
}

// Adapters have observers, and none of our middleware.
func TestObserversOfAnAdapterSeeWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		registry := prometheus.NewPedanticRegistry()
		metrics, err := middleware.NewMetrics(prom.New(registry), nil)
		noError(t, err)
		funnel, err := roundtrip.NewFunnel(&roundtrip.Options{
			Observer: event.Observers(metrics, middleware.NewLog(zaplog.New(zap.New(core)), nil)),
			Limits:   roundtrip.Limits{Waiting: 1},
		})
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
		wantEqual(t, "requests wait", value(t, registry, "rondo_requests_waiting"), 1)
		if err := ask(); err == nil {
			t.Error("a second call waits as well")
		}
		noError(t, <-done)
		for name, want := range map[string]float64{"rondo_requests_waiting": 0,
			"rondo_request_waiting_seconds": 60} {
			wantEqual(t, fmt.Sprintf("%s adds up to", name), sum(t, registry, name), want)
		}
		for name, want := range map[string]map[string]any{
			"mcp.wait_began": {"target": "deploy", "method": "tools/call"},
			"mcp.wait_ended": {"waited_ms": 60000},
			"mcp.quota_exceeded": {"resource": "waiting", "limit": "server",
				"retry_after_ms": 5000},
		} {
			entries := logs.FilterMessage(name).All()
			if len(entries) != 1 {
				t.Fatalf("%d entries %s, want 1", len(entries), name)
			}
			wantFields(t, entries[0], want)
		}
	})
}
