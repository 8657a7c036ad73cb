package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
)

func TestLogOfLegs(t *testing.T) {
	tests := []struct {
		name   string
		method string
		params []string
		level  zapcore.Level
		want   map[string]any
	}{
		{"complete", protocol.MethodCallTool, []string{`"name":"echo"`}, zap.InfoLevel,
			map[string]any{
				"method": "tools/call", "target": "echo", "era": "modern", "version": "2026-07-28",
				"principal": "local", "outcome": "complete", "code": nil, "error": nil}},
		{"list", protocol.MethodListTools, nil, zap.InfoLevel,
			map[string]any{"outcome": "complete", "target": ""}},
		{"tool error", protocol.MethodCallTool, []string{`"name":"fail"`}, zap.InfoLevel,
			map[string]any{"outcome": "tool_error", "error": nil}},
		{"input required", protocol.MethodCallTool, []string{`"name":"deploy"`}, zap.InfoLevel,
			map[string]any{"outcome": "input_required", "round": 1}},
		{"protocol error", protocol.MethodCallTool, []string{`"name":"refuse"`}, zap.InfoLevel,
			map[string]any{
				"outcome": "other_error", "code": 4711, "error": "not today"}},
		{"handler error", protocol.MethodGetPrompt,
			[]string{`"name":"greet"`, `"arguments":{"who":"Ann"}`}, zap.InfoLevel, map[string]any{
				"outcome": "handler_error", "code": protocol.CodeHandlerError, "error": nil}},
		{"refusal", "no/such", nil, zap.InfoLevel, map[string]any{
			"outcome": "method_not_found", "code": protocol.CodeMethodNotFound,
			"method": "no/such"}},
		{"panic", protocol.MethodCallTool, []string{`"name":"panic"`}, zap.WarnLevel,
			map[string]any{
				"outcome": "internal_error", "error": "internal error"}},
		{"resource", protocol.MethodReadResource, []string{`"uri":"doc://ann:pw@host/a?token=1#f"`},
			zap.InfoLevel, map[string]any{
				"target": "doc://…@host/a?…", "outcome": "invalid_params", "error": `resource not found: "doc://…@host/a?…`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.send(tt.method, tt.params...)
			e := r.entry("mcp.request")
			wantFields(t, e, tt.want)
			wantEqual(t, "level", e.Level, tt.level)
			if d, ok := e.ContextMap()["duration_ms"].(float64); !ok || d < 0 || d > 60_000 {
				t.Errorf("duration_ms is %v", e.ContextMap()["duration_ms"])
			}
		})
	}
}

func TestLogOfPrincipals(t *testing.T) {
	tests := map[string]protocol.Principal{
		"local":         protocol.LocalPrincipal(),
		"anonymous":     {},
		"authenticated": {Issuer: "https://id.example", Subject: "ann@example.org"},
	}
	for want, who := range tests {
		r := newRig(t)
		r.raw(server.WithPrincipal(context.Background(), who), protocol.MethodListTools,
			params(allCapabilities))
		wantFields(t, r.entry("mcp.request"), map[string]any{"principal": want})
	}
}

func TestLogOfFlow(t *testing.T) {
	r := newRig(t)
	asked := r.call("deploy", "prod")
	r.call("deploy", "prod", answers(`"confirm":{"action":"accept","content":{"ok":true}}`), r.state(asked))
	legs := r.logs.FilterMessage("mcp.request").All()
	if len(legs) != 2 {
		t.Fatalf("%d legs, want 2", len(legs))
	}
	flow := legs[1].ContextMap()["flow"]
	if flow == nil || flow == "" {
		t.Errorf("the second leg has no flow: %v", legs[1].ContextMap())
	}
	wantFields(t, legs[1], map[string]any{"round": 2, "outcome": "complete"})
	wantFields(t, r.entry("mcp.input_required"), map[string]any{
		"kinds": "[elicitation.form]", "round": 1, "rounds_left": 7, "target": "deploy"})
	wantFields(t, r.entry("mcp.resumed"), map[string]any{"round": 2, "flow": flow})
	wantFields(t, r.entry("mcp.flow_ended"),
		map[string]any{"how": "complete", "legs": 2, "flow": flow})
}

// The entries of a retried request have the flow, too.
func TestLogOfReplays(t *testing.T) {
	r := newWatch(t, nil, nil).newRig(roundtrip.Options{Guard: store.NewMemoryGuard(0)})
	asked := r.call("deploy", "prod")
	for _, answer := range []string{`{"ok":true}`, `{"ok":true}`, `{"ok":false}`} {
		r.call("deploy", "prod", answers(`"confirm":{"action":"accept","content":`+answer+`}`),
			r.state(asked))
	}
	flow := r.entry("mcp.resumed").ContextMap()["flow"]
	for name, n := range map[string]int{"mcp.request": 4, "mcp.flow_ended": 2,
		"mcp.state_rejected": 1} {
		found := r.logs.FilterMessage(name).All()
		if len(found) != n {
			t.Errorf("%d entries %s, want %d", len(found), name, n)
		}
		for i, entry := range found {
			round := 2
			if name == "mcp.request" && i == 0 {
				round = 1
			}
			wantFields(t, entry, map[string]any{"flow": flow, "round": round})
		}
	}
}

func TestLogOfEvents(t *testing.T) {
	r := newRig(t)
	asked := r.call("deploy", "prod")

	refused := r.call("deploy", "other", r.state(asked))
	wantCode(t, refused, protocol.CodeInvalidParams)
	e := r.entry("mcp.state_rejected")
	wantFields(t, e, map[string]any{"reason": "other_arguments", "target": "deploy"})
	if ref, _ := e.ContextMap()["reference"].(string); ref == "" ||
		!strings.Contains(string(refused.Error.Data), ref) || e.Level != zap.WarnLevel {
		t.Errorf("reference %q, level %s, client got %s", ref, e.Level, refused.Error.Data)
	}

	r.call("echo", "", answers(`"a\nb":{"action":"accept"}`))
	wantFields(t, r.entry("mcp.answers_dropped"),
		map[string]any{"count": 1, "dropped": `[unsolicited a\nb]`})

	r.raw(context.Background(), protocol.MethodCallTool, params(`{}`, `"name":"deploy"`))
	wantFields(t, r.entry("mcp.capability_refused"), map[string]any{"missing": "elicitation.form"})

	r.call("panic", "")
	e = r.entry("mcp.handler_panicked")
	wantFields(t, e, map[string]any{"panic": "no idea what to do with ", "target": "panic"})
	if stack := fmt.Sprint(e.ContextMap()["stack"]); e.Level != zap.ErrorLevel ||
		!strings.Contains(stack, "harness_test.go") {
		t.Errorf("level %s, stack %s", e.Level, stack)
	}

	r.call("bug", "")
	e = r.entry("mcp.server_bug")
	if e.Level != zap.ErrorLevel ||
		!strings.Contains(fmt.Sprint(e.ContextMap()["error"]), "input required") {
		t.Errorf("level %s, fields %v", e.Level, e.ContextMap())
	}

	r.ReportEphemeralKey(t.Context())
	e = r.entry("mcp.ephemeral_key")
	for _, word := range []string{"replica", "rollout", "KeyringFromEnv"} {
		wantPart(t, "ephemeral_key does not speak of", fmt.Sprint(e.ContextMap()["meaning"]), word)
	}
	if e.Level != zap.WarnLevel || e.ContextMap()["key_id"] == "" {
		t.Errorf("level %s, fields %v", e.Level, e.ContextMap())
	}
}

// Caller and stack would both be this package's.
func TestEntriesHaveNeitherCallerNorStack(t *testing.T) {
	log, logs := newLog(nil, zap.AddCaller(), zap.AddStacktrace(zap.DebugLevel))
	log.Observe(t.Context(), event.ServerBug{Err: errors.New("a rule")})
	log.Observe(t.Context(), event.RequestRefused{Reason: words.RefusedHost})
	if logs.Len() != 2 {
		t.Fatalf("%d entries, want 2", logs.Len())
	}
	for _, e := range logs.All() {
		if e.Caller.Defined || e.Stack != "" {
			t.Errorf("%s has caller %v and stack %q", e.Message, e.Caller, e.Stack)
		}
	}
}

func TestTheEntryOfAFutureStateSaysByHowMuch(t *testing.T) {
	log, logs := newLog(nil)
	log.Observe(t.Context(),
		event.StateRejected{Reason: words.ReasonFuture, Err: errors.New("ahead by 10m0s")})
	wantFields(t, logs.All()[0], map[string]any{"meaning": "ahead by 10m0s"})
}

func TestLogNearLimit(t *testing.T) {
	log, logs := newLog(nil)
	for left, want := range map[int]zapcore.Level{-1: zap.InfoLevel, 0: zap.WarnLevel,
		2: zap.WarnLevel, 3: zap.InfoLevel} {
		log.Observe(context.Background(), event.InputRequested{RoundsLeft: left})
		e := logs.TakeAll()[0]
		wantEqual(t, fmt.Sprintf("%d rounds left: level", left), e.Level, want)
		wantFields(t, e, map[string]any{"rounds_left": left})
	}
}

// Texts cannot break out of a line, hide in one or fill a disk.
func TestLogIsNotForged(t *testing.T) {
	hostile := "x\n{\"level\":\"error\"}\u202e\x1b[2J\u2028\x7f\xff"
	long := strings.Repeat("é", 100_000)
	log, logs := newLog(nil)
	for _, text := range []string{hostile, long} {
		where := event.Where{Version: protocol.Version(text), Method: text, Target: text,
			Flow: text, Round: 1}
		request := incoming(text, protocol.Principal{})
		request.Target, request.Version = text, protocol.Version(text)
		run(log.Wrap, request, func(ctx context.Context, _ *server.Request) (protocol.Result,
			error) {
			for _, e := range []event.Event{
				event.StateRejected{Where: where, Reference: text, Reason: event.Reason(text)},
				event.AnswersDropped{Where: where,
					Dropped: []event.Dropped{{Key: text, Reason: event.DropReason(text)}}},
				event.FlowEnded{Where: where, How: event.FlowEnd(text)},
				event.ServerBug{Where: where, Err: errors.New(text)},
				event.EphemeralKey{KeyID: text},
			} {
				log.Observe(ctx, e)
			}
			return nil, protocol.Errorf(1, "%s", text)
		})
	}
	wantEqual(t, "entries", logs.Len(), 12)
	for _, e := range logs.All() {
		for name, v := range e.ContextMap() {
			text := fmt.Sprint(v)
			if strings.ContainsFunc(text,
				func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
				t.Errorf("%s: %s is %q", e.Message, name, text)
			}
			if n := utf8.RuneCountInString(text); n > 256 && name != "meaning" {
				t.Errorf("%s: %s has %d characters", e.Message, name, n)
			}
		}
	}
}

func TestLogBoundsDroppedAnswers(t *testing.T) {
	log, logs := newLog(nil)
	log.Observe(context.Background(), event.AnswersDropped{Dropped: make([]event.Dropped, 1000)})
	fields := logs.All()[0].ContextMap()
	if list, _ := fields["dropped"].([]any); len(list) != 8 || fields["count"] != int64(1000) {
		t.Errorf("%d named, count %v; want 8 and 1000", len(list), fields["count"])
	}
}

func TestLogOptions(t *testing.T) {
	log, logs := newLog(&middleware.Options{Level: event.LevelDebug, OmitErrors: true})
	run(log.Wrap, toolCall(), func(ctx context.Context, _ *server.Request) (protocol.Result,
		error) {
		log.Observe(ctx, event.HandlerPanicked{Value: "broken"})
		log.Observe(ctx, event.HandlerFailed{Err: errors.New("broken"), Text: "broken"})
		log.Observe(ctx, event.RequestRefused{Reason: words.RefusedForbidden,
			Status: 403, Err: errors.New("ann may not"),
			Principal: protocol.Principal{Subject: "ann"}})
		return nil, protocol.Errorf(4711, "words")
	})
	all := logs.All()
	wantFields(t, all[0], map[string]any{"panic": "value of type string"})
	wantFields(t, all[1], map[string]any{"error": nil, "error_type": "*errors.errorString"})
	wantNoPart(t, "the entry", fmt.Sprint(all[2]), "ann")
	wantFields(t, all[3], map[string]any{"error": nil, "code": 4711})
	wantEqual(t, "level", all[3].Level, zap.DebugLevel)
}

func TestLogWarnsThatThePageServesNoAnonymousCallers(t *testing.T) {
	log, logs := newLog(nil)
	log.Observe(t.Context(), event.CapabilityRefused{})
	log.Observe(t.Context(), event.CapabilityRefused{AnonymousPage: true})
	all := logs.All()
	wantFields(t, all[0], map[string]any{"page": nil})
	wantEqual(t, "level", all[0].Level, zap.InfoLevel)
	wantFields(t, all[1], map[string]any{
		"page": "it does not serve anonymous callers: authenticate them"})
	wantEqual(t, "level", all[1].Level, zap.WarnLevel)
}

func TestLogLevelIsObeyed(t *testing.T) {
	log, logs := newLog(nil, zap.IncreaseLevel(zap.ErrorLevel))
	log.Observe(t.Context(), event.Resumed{Waited: time.Second})
	run(log.Wrap, toolCall(),
		returns(nil, protocol.Errorf(protocol.CodeInternalError, "internal error")))
	wantEqual(t, "entries below error", logs.Len(), 0)
}

func TestLogNil(t *testing.T) {
	log := middleware.NewLog(nil, nil)
	log.Observe(context.Background(), event.EphemeralKey{KeyID: "k"})
	want := &protocol.EmptyResult{}
	got, err := run(log.Wrap, incoming(protocol.MethodPing, protocol.LocalPrincipal()),
		returns(want, nil))
	if got != protocol.Result(want) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

// A handler's in-process call of another server is not logged as part of its own flow.
func TestLogOfNestedServers(t *testing.T) {
	inner, outer := newRig(t), newRig(t)
	asked := inner.call("deploy", "prod")
	addTool(outer.Server, "gateway", func(ctx context.Context, _ input) (toolOutcome, error) {
		inner.raw(ctx, protocol.MethodCallTool,
			params(allCapabilities, `"name":"deploy"`, `"arguments":{"note":"prod"}`,
				answers(`"confirm":{"action":"decline"}`), inner.state(asked)))
		return server.Text("passed on"), nil
	})
	outer.call("gateway", "")
	wantFields(t, outer.entry("mcp.request"), map[string]any{"flow": nil, "round": nil})
	legs := inner.logs.FilterMessage("mcp.request").All()
	wantFields(t, legs[1], map[string]any{"round": 2})
}

// Log and metrics report failed questions and their results, but not the client's text.
func TestFailedPushesAreRecorded(t *testing.T) {
	w := newWatch(t, nil, nil)
	where := event.Where{Version: protocol.V20260728, Method: protocol.MethodCallTool,
		Target: "delete", Round: 1}
	for _, e := range []event.PushFailed{
		{Where: where, Kind: protocol.KindElicitForm,
			Err: &roundtrip.PushError{Method: protocol.MethodElicit, Cause: "no session"}},
		{Where: where, Kind: protocol.KindListRoots, Err: protocol.Errorf(-32000, "hunter2"),
			Tolerated: true},
		{Where: where, Kind: protocol.KindListRoots, Err: errors.New("line\nbreak"),
			Tolerated: true},
		{Where: where, Kind: protocol.KindListRoots},
	} {
		w.Observe(t.Context(), e)
	}
	entries := w.logs.FilterMessage("mcp.push_failed").All()
	if len(entries) != 4 {
		t.Fatalf("%d entries", len(entries))
	}
	wantEqual(t, "level", entries[0].Level, zap.WarnLevel)
	wantFields(t, entries[0], map[string]any{"target": "delete", "kind": "elicitation.form",
		"outcome": "refused",
		"error": "push elicitation/create: no session; ask in rounds instead, which clients of " +
			"every revision understand: with roundtrip.Ask, or return roundtrip.InputRequired " +
			"from the handler"})
	wantFields(t, entries[1], map[string]any{"outcome": "tolerated",
		"error": "the client answered with an error, code -32000"})
	wantFields(t, entries[2], map[string]any{"error": `line\nbreak`})
	for _, outcome := range []string{"refused", "tolerated"} {
		w.wantValue(2, "rondo_push_failures_total", "outcome", outcome)
	}
}

// Errors are cut at 512 characters, with escapes and the ellipsis.
func TestLongErrorsAreCut(t *testing.T) {
	log, logs := newLog(nil)
	for text, want := range map[string]string{
		strings.Repeat("x", 512):  strings.Repeat("x", 512),
		strings.Repeat("x", 513):  strings.Repeat("x", 511) + "…",
		strings.Repeat("\n", 300): strings.Repeat(`\n`, 255) + "…",
	} {
		log.Observe(t.Context(), event.HandlerFailed{Err: errors.New(text), Text: text})
		wantEqual(t, fmt.Sprintf("%d bytes are logged as", len(text)),
			logs.TakeAll()[0].ContextMap()["error"], want)
	}
}
