package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// Every external event of a flow has its log entry and metric.
func TestWhatHappensToFlowsFromOutsideIsRecorded(t *testing.T) {
	where := event.Where{Version: protocol.V20260728, Method: protocol.MethodCallTool,
		Target: "deploy", Flow: "f", Round: 2}
	for _, c := range []struct {
		event  event.Event
		entry  string
		level  zapcore.Level
		fields map[string]any
		metric string
		labels []string
	}{
		{event.CutOff{Where: where, Retriable: true}, "mcp.cut_off", zapcore.InfoLevel,
			map[string]any{"retriable": true}, "rondo_cut_off_total",
			[]string{"retriable", "true"}},
		{event.CutOff{Where: where}, "mcp.cut_off", zapcore.InfoLevel,
			map[string]any{"retriable": false}, "rondo_cut_off_total",
			[]string{"retriable", "false"}},
		{event.StoreFailed{Where: where, Resource: "guard", Operation: "claim",
			Err: errors.New("no route")}, "mcp.store_failed", zapcore.ErrorLevel,
			map[string]any{"resource": "guard", "operation": "claim", "error": "no route"},
			"rondo_store_failures_total", []string{"operation", "claim"}},
		{event.QuotaExceeded{Where: where, Resource: "meta", Limit: "request",
			RetryAfter: 2 * time.Second},
			"mcp.quota_exceeded", zapcore.WarnLevel,
			map[string]any{"resource": "meta", "limit": "request", "retry_after_ms": 2000.0},
			"rondo_quota_refusals_total", []string{"resource", "meta"}},
		{event.QuestionReworded{Where: where, Key: "pay", Asked: "v1", Version: "v2"},
			"mcp.question_reworded", zapcore.WarnLevel,
			map[string]any{"key": "pay", "asked_by": "v1", "app_version": "v2"},
			"rondo_reworded_questions_total", nil},
		{event.MessageRepaired{Where: where, Arguments: []string{"n", "a\nb"}},
			"mcp.message_repaired", zapcore.InfoLevel,
			map[string]any{"text": false, "arguments": []any{"n", `a\nb`}}, "", nil},
		{event.SessionEvicted{Idle: time.Minute, Limit: "server"}, "mcp.session_evicted",
			zapcore.InfoLevel, map[string]any{"idle_ms": 60000.0, "limit": "server"},
			"rondo_sessions_evicted_total", nil},
	} {
		w := newWatch(t, nil, nil)
		w.Observe(t.Context(), c.event)
		if c.metric != "" {
			w.wantValue(1, c.metric, c.labels...)
		}
		e := w.entry(c.entry)
		wantEqual(t, "entries", w.logs.Len(), 1)
		wantFields(t, e, c.fields)
		if c.entry != "mcp.session_evicted" { // an eviction is about no flow
			wantFields(t, e, map[string]any{"target": "deploy", "flow": "f", "round": 2})
		}
		wantEqual(t, fmt.Sprintf("%s is at level", c.entry), e.Level, c.level)
	}
}

// A downGuard always fails.
type downGuard struct{ store.Guard }

func (downGuard) Claim(context.Context, string, string, [32]byte, time.Time) (store.Claim, error) {
	return nil, errors.New("dial db.internal: connection refused")
}

// A failing guard is not a bug: clients are told to retry, and operators see what failed.
func TestAGuardThatIsDownIsNoBug(t *testing.T) {
	r := newWatch(t, nil, nil).newRig(roundtrip.Options{Guard: downGuard{store.NewMemoryGuard(0)}})
	asked := r.call("deploy", "prod")
	got := r.call("deploy", "prod", answers(`"confirm":{"action":"accept","content":{"ok":true}}`),
		r.state(asked))
	wantCode(t, got, protocol.CodeBusy)
	wantNoPart(t, "the client's error", got.Error.Message+string(got.Error.Data), "db.internal")
	wantFields(t, r.entry("mcp.store_failed"), map[string]any{"resource": "guard",
		"operation": "claim", "target": "deploy"})
	r.wantValue(1, "rondo_store_failures_total", "operation", "claim")
	r.wantValue(0, "rondo_server_bugs_total")
	if bugs := r.logs.FilterMessage("mcp.server_bug").Len(); bugs > 0 {
		t.Errorf("%d entries of bugs", bugs)
	}
}
