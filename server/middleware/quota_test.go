package middleware_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/middleware"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestRefusalsForWantOfRoomAreSeen in the log and the metrics, and so are the
// sessions that made room.
func TestRefusalsForWantOfRoomAreSeen(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	registry := prometheus.NewRegistry()
	metrics, err := middleware.NewMetrics(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	both := roundtrip.Observers(middleware.NewLog(zap.New(core), nil), metrics)
	where := roundtrip.Where{Version: protocol.V20260728, Method: protocol.MethodCallTool, Target: "pay"}
	both.Observe(t.Context(), roundtrip.QuotaExceeded{Where: where, Resource: "guard", Limit: "principal", RetryAfter: 2 * time.Second})
	both.Observe(t.Context(), roundtrip.SessionEvicted{Idle: time.Minute, Limit: "server"})
	for _, want := range []struct {
		name   string
		fields map[string]any
	}{
		{"mcp.quota_exceeded", map[string]any{"resource": "guard", "limit": "principal", "retry_after_ms": 2000.0, "target": "pay"}},
		{"mcp.session_evicted", map[string]any{"idle_ms": 60000.0, "limit": "server"}},
	} {
		entries := logs.FilterMessage(want.name).All()
		if len(entries) != 1 {
			t.Fatalf("%d entries %s, want 1", len(entries), want.name)
		}
		wantFields(t, entries[0], want.fields)
	}
	for _, name := range []string{"rondo_quota_refusals_total", "rondo_sessions_evicted_total"} {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, f := range families {
			if f.GetName() == name {
				for _, m := range f.GetMetric() {
					sum += m.GetCounter().GetValue()
				}
			}
		}
		if sum != 1 {
			t.Errorf("%s is %v, want 1", name, sum)
		}
	}
	if n := testutil.CollectAndCount(registry, "rondo_quota_refusals_total"); n != 5 {
		t.Errorf("%d series, want one for each resource from the start, and one for others", n)
	}
}
