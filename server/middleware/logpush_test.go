package middleware_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/middleware"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestFailedPushesAreRecorded: log and metrics say that nobody answered and what
// came of it, and nothing of what the client chose to say.
func TestFailedPushesAreRecorded(t *testing.T) {
	r := newRig(t)
	core, logs := observer.New(zap.DebugLevel)
	log := middleware.NewLog(zap.New(core), nil)
	where := roundtrip.Where{Version: protocol.V20260728, Method: protocol.MethodCallTool, Target: "delete", Round: 1}
	for _, e := range []roundtrip.PushFailed{
		{Where: where, Kind: protocol.KindElicitForm, Err: &roundtrip.PushError{Method: protocol.MethodElicit, Cause: "no session"}},
		{Where: where, Kind: protocol.KindListRoots, Err: protocol.Errorf(-32000, "hunter2"), Tolerated: true},
		{Where: where, Kind: protocol.KindListRoots, Err: errors.New("line\nbreak"), Tolerated: true},
		{Where: where, Kind: protocol.KindListRoots},
	} {
		log.Observe(context.Background(), e)
		r.metrics.Observe(context.Background(), e)
	}
	entries := logs.FilterMessage("mcp.push_failed").All()
	if len(entries) != 4 {
		t.Fatalf("%d entries", len(entries))
	}
	if entries[0].Level != zap.WarnLevel {
		t.Errorf("level %s", entries[0].Level)
	}
	wantFields(t, entries[0], map[string]any{"target": "delete", "kind": "elicitation.form", "outcome": "refused",
		"error": "push elicitation/create: no session; return roundtrip.InputRequired from the handler instead"})
	wantFields(t, entries[1], map[string]any{"outcome": "tolerated", "error": "the client answered with an error, code -32000"})
	wantFields(t, entries[2], map[string]any{"error": `line\nbreak`})
	for _, outcome := range []string{"refused", "tolerated"} {
		if n := value(t, r.registry, "rondo_push_failures_total", "outcome", outcome); n != 2 {
			t.Errorf("%v are counted as %s, want 2", n, outcome)
		}
	}
}
