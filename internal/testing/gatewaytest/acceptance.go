package gatewaytest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// A Mode is how calls of a gateway use connections to the upstream.
type Mode string

// The modes.
const (
	SharedHTTP  Mode = "calls share a connection over HTTP"
	PerCallHTTP Mode = "a connection for each call over HTTP"
	TurnsLines  Mode = "calls take turns on a connection over lines"
	perCallLine Mode = "a connection for each call over lines"
)

// OverLines reports whether connections are over lines.
func (m Mode) OverLines() bool { return m == TurnsLines || m == perCallLine }

func modes() []Mode { return []Mode{SharedHTTP, PerCallHTTP, TurnsLines, perCallLine} }

// LogName is the name in logs that a gateway gives the session of the client.
const LogName = "downstream-1"

const (
	forms     = `{"elicitation":{"form":{}}}`
	bothModes = `{"elicitation":{"form":{},"url":{}}}`
)

// A Gateway is what a test builds: it has the tools of the upstream and passes calls on.
// It returns the URL of its endpoint.
type Gateway func(t *testing.T, router *elicitation.Router, up *Upstream, mode Mode) (url string)

func newRouter(t testing.TB, opts *elicitation.Options) *elicitation.Router {
	t.Helper()
	router, err := elicitation.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return router
}

// A sentence is one requirement: what is asked and answered, and what everybody reads.
type sentence struct {
	name     string
	outside  bool   // the question belongs to no call
	declared string // "": form mode
	question string // "": one that any answer fits
	reply    string // of the client, "": it does not answer
	upstream string // what the upstream reads, as JSON
	frames   int32  // how many questions the client got
	logged   []entry
	minHuman time.Duration
}

// An entry is what is known of a log entry. Fields that are not named must be absent, except
// for those that every entry has.
type entry struct {
	event  string
	fields fields
}

type fields = map[string]any

const (
	plain = `{"mode":"form","message":"Deploy?","requestedSchema":` +
		`{"type":"object","properties":{"why":{"type":"string"}}}}`
	visit = `{"mode":"url","message":"Sign in","url":"https://example.com/in",` +
		`"elicitationId":"v1"}`
	nested = `{"mode":"form","message":"Deploy?","requestedSchema":{"type":"object","properties":` +
		`{"where":{"type":"object","properties":{"zone":{"type":"string"}}}}}}`
	noSchema = `{"mode":"form","message":"Deploy?"}`

	because = `{"action":"accept","content":{"why":"because"}}`
)

// asked are the entries of a question that reached the client. An SDK reports the delivery when
// the answer arrives.
func asked(delivered bool, end string, with fields) []entry {
	all := []entry{{"elicitation.created", nil}}
	if delivered {
		all = append(all, entry{"elicitation.delivered", nil})
	}
	return append(all, entry{end, with})
}

func answered(name, action, content string) sentence {
	reply := `{"action":"` + action + `"` + content + `}`
	return sentence{name: name, reply: `"result":` + reply, upstream: reply, frames: 1,
		logged: asked(true, "elicitation.completed", fields{"action": action})}
}

// unseen is answered for a refusal that came sooner than a person can have given it. The upstream
// reads what the client said.
func unseen(action string) sentence {
	s := answered("the client answers "+action+" by itself", action, "")
	s.minHuman, s.logged[2].fields["unseen"] = time.Hour, true
	return s
}

// violating is answered with content that does not fit, which is passed on with a warning.
func violating(name, question, content string) sentence {
	s := answered(name, "accept", content)
	s.question, s.logged[2].fields["violation"] = question, regexp.MustCompile(`.`)
	return s
}

func rejected(reason string, code float64) []entry {
	return []entry{{"elicitation.rejected", fields{"reason": reason, "code": code}}}
}

func sentences() []sentence {
	return []sentence{
		answered("the client accepts", "accept", `,"content":{"why":"because"}`),
		answered("the client declines", "decline", ""),
		answered("the client cancels", "cancel", ""),
		unseen("decline"),
		unseen("cancel"),
		violating("accepted content that does not fit", "", `,"content":{"why":5}`),
		violating("a nested form that no revision knows", nested,
			`,"content":{"where":{"zone":"a"}}`),
		{name: "nobody answers in time", frames: 1,
			upstream: `{"code":23224,"message":"Elicitation timed out"}`,
			logged:   asked(false, "elicitation.timeout", fields{"code": 23224.0})},
		{name: "the client answers with an error", frames: 1,
			reply:    `"error":{"code":-32000,"message":"no eyes"}`,
			upstream: `{"code":-32000,"message":"no eyes"}`,
			logged: asked(true, "elicitation.error",
				fields{"reason": "client_error", "code": -32000.0})},
		{name: "the client's result is not one", reply: `"result":{"action":5}`, frames: 1,
			upstream: `{"code":-32603,"message":"The client's answer is not valid"}`,
			logged: asked(true, "elicitation.error", fields{"reason": "invalid_reply",
				"code": -32603.0, "error": "the result is not that of an elicitation"})},
		{name: "the question belongs to no call", outside: true,
			upstream: `{"code":-32601,"message":"No client session available"}`,
			logged:   rejected("no_session", -32601)},
		{name: "the client did not declare elicitation", declared: `{}`,
			upstream: `{"code":-32601,"message":"Client does not support elicitation"}`,
			logged:   rejected("capability", -32601)},
		{name: "the client declared the other mode", declared: `{"elicitation":{"url":{}}}`,
			upstream: `{"code":-32602,"message":"Client does not support form elicitation"}`,
			logged:   rejected("mode", -32602)},
		{name: "the client did not declare the mode", question: visit,
			upstream: `{"code":-32602,"message":"Client does not support URL elicitation"}`,
			logged:   rejected("mode", -32602)},
		{name: "the question is malformed", question: noSchema,
			upstream: `{"code":-32602,"message":"Invalid elicitation request: *"}`,
			logged:   rejected("invalid_question", -32602)},
	}
}

// Accept holds a gateway against the table: what the upstream reads, the response,
// each field of the log, and the metrics.
func Accept(t *testing.T, build Gateway) {
	for _, mode := range modes() {
		for _, s := range sentences() {
			t.Run(string(mode)+"/"+s.name, func(t *testing.T) { s.check(t, build, mode) })
		}
	}
}

func (s sentence) check(t *testing.T, build Gateway, mode Mode) {
	if s.outside && (mode == PerCallHTTP || mode == perCallLine) {
		t.Skip("the connection ends with the call")
	}
	core, logs := observer.New(zap.DebugLevel)
	registry := prometheus.NewRegistry()
	opts := elicitation.Options{Log: zaplog.New(zap.New(core)), Metrics: prom.New(registry),
		MinHumanTime: cmp.Or(s.minHuman, -1)}
	if s.reply == "" {
		opts.Timeout = 50 * time.Millisecond
	}
	router, up := newRouter(t, &opts), NewUpstream(t)
	url := build(t, router, up, mode)
	client := Connect(t, url, cmp.Or(s.declared, forms), s.reply, nil)
	got := ""
	if s.outside {
		client.Call(t, ToolPlain, plain)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got = up.lateAsker()(ctx, plain)
	} else {
		got = client.Call(t, ToolAsk, cmp.Or(s.question, plain))
	}
	if !matchesJSON(got, s.upstream) {
		t.Errorf("the upstream reads %s, want %s", got, s.upstream)
	}
	if n := client.asked.Load(); n != s.frames {
		t.Errorf("the client got %d questions, want %d", n, s.frames)
	}
	s.checkLog(t, logs.All())
	s.checkMetrics(t, registry)
	if mode == PerCallHTTP {
		up.checkDeclared(t, cmp.Or(s.declared, forms))
	}
}

// matchesJSON compares JSON. A want whose last string ends with * matches by what is before.
func matchesJSON(got, want string) bool {
	if before, _, ok := strings.Cut(want, "*"); ok {
		return strings.HasPrefix(got, before)
	}
	var g, w any
	return json.Unmarshal([]byte(got), &g) == nil && json.Unmarshal([]byte(want), &w) == nil &&
		reflect.DeepEqual(g, w)
}

func (s sentence) checkLog(t *testing.T, got []observer.LoggedEntry) {
	t.Helper()
	var names, want []string
	for _, e := range got {
		names = append(names, e.Message)
	}
	for _, e := range s.logged {
		want = append(want, e.event)
	}
	if !slices.Equal(names, want) {
		t.Fatalf("logged %q, want %q", names, want)
	}
	for i, e := range s.logged {
		s.checkEntry(t, e, got[i])
	}
}

func (s sentence) checkEntry(t *testing.T, want entry, got observer.LoggedEntry) {
	t.Helper()
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range got.Context {
		f.AddTo(encoder)
	}
	read := fields{} // as a reader of JSON has it
	data, err := json.Marshal(encoder.Fields)
	if err != nil || json.Unmarshal(data, &read) != nil {
		t.Fatalf("%v: %v", encoder.Fields, err)
	}
	expected := fields{
		"event": want.event, "downstream_session": "", "action": "",
		"request_id":       regexp.MustCompile(`^[0-9a-f]{32}$`),
		"upstream_session": regexp.MustCompile(`^up`), "duration_ms": regexp.MustCompile(`^[0-9]`),
		"message": regexp.MustCompile(`^(Deploy\?|Sign in)$`),
	}
	if !s.outside {
		expected["downstream_session"] = LogName
		expected["call_id"] = regexp.MustCompile(`^[A-Z2-7]{26}$`)
	}
	if s.frames > 0 {
		expected["mode"] = "elicitation.form"
	}
	maps.Copy(expected, want.fields)
	for name, value := range expected {
		found, ok := read[name]
		delete(read, name)
		pattern, isPattern := value.(*regexp.Regexp)
		if !ok || !isPattern && found != value ||
			isPattern && !pattern.MatchString(fmt.Sprint(found)) {
			t.Errorf("%s: %s is %v, want %v", want.event, name, found, value)
		}
	}
	if len(read) > 0 {
		t.Errorf("%s: has other fields %v", want.event, read)
	}
}

// metrics are those that are not zero after what was logged.
func (s sentence) metrics() []string {
	var all []string
	for _, e := range s.logged {
		switch e.event {
		case "elicitation.created":
			all = append(all, "elicitation_requests_total 1")
		case "elicitation.completed":
			action := e.fields["action"]
			if e.fields["unseen"] != nil {
				action = "unseen"
			}
			all = append(all, fmt.Sprintf(`elicitation_completed_total{action=%q} 1`, action))
		case "elicitation.timeout":
			all = append(all, "elicitation_timeout_total 1")
		case "elicitation.error":
			all = append(all, fmt.Sprintf(`elicitation_errors_total{reason=%q} 1`,
				e.fields["reason"]))
		case "elicitation.rejected":
			all = append(all, fmt.Sprintf(`elicitation_rejected_total{reason=%q} 1`,
				e.fields["reason"]))
		}
	}
	slices.Sort(all)
	return all
}

func (s sentence) checkMetrics(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if value == 0 {
				continue
			}
			label := ""
			for _, pair := range m.GetLabel() {
				label = fmt.Sprintf(`{%s=%q}`, pair.GetName(), pair.GetValue())
			}
			got = append(got, fmt.Sprintf("%s%s %v", family.GetName(), label, value))
		}
	}
	slices.Sort(got)
	if want := s.metrics(); !slices.Equal(got, want) {
		t.Errorf("metrics are %q, want %q", got, want)
	}
}
