package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

// A rig is a router whose logs and metrics can be looked at.
type rig struct {
	testing.TB
	*elicitation.Router
	logs     *observer.ObservedLogs
	registry *prometheus.Registry
}

func newRig(t testing.TB, o elicitation.Options) *rig {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	registry := prometheus.NewPedanticRegistry()
	if o.Log == nil {
		o.Log = zaplog.New(zap.New(core))
	}
	if o.Metrics == nil {
		o.Metrics = prom.New(registry)
	}
	if o.MinHumanTime == 0 { // who answers here is a test, at once
		o.MinHumanTime = -1
	}
	router, err := elicitation.New(&o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{TB: t, Router: router, logs: logs, registry: registry}
}

func caps(form, url bool) protocol.ClientCapabilities {
	return protocol.ClientCapabilities{Elicitation: &protocol.ElicitationCapability{Form: form,
		URL: url}}
}

func alice() protocol.Principal {
	return protocol.Principal{Issuer: "https://id.example", Subject: "alice"}
}

func bob() protocol.Principal {
	return protocol.Principal{Issuer: "https://id.example", Subject: "bob"}
}

func (r *rig) attach(info elicitation.SessionInfo) *elicitation.Session {
	r.Helper()
	if info.Capabilities.IsZero() {
		info.Capabilities = caps(true, true)
	}
	s, err := r.Attach(info)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

func (r *rig) begin(origin elicitation.Origin, via elicitation.Via,
	upstream elicitation.UpstreamKey) *elicitation.Call {
	r.Helper()
	return r.beginIn(context.Background(), origin, via, upstream)
}

func (r *rig) beginIn(ctx context.Context, origin elicitation.Origin, via elicitation.Via,
	upstream elicitation.UpstreamKey) *elicitation.Call {
	r.Helper()
	c, err := r.Begin(ctx, origin, via, upstream)
	if err != nil {
		r.Fatal(err)
	}
	return c
}

const schema = `{"type":"object","properties":{"ok":{"type":"boolean"},"n":{"type":"integer"}},"required":["ok"]}`

// form is a question with one message.
func form(message string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"mode":"form","message":%q,"requestedSchema":%s}`, message, schema))
}

func urlQuestion(message, url, id string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"mode":"url","message":%q,"url":%q,"elicitationId":%q}`, message, url, id))
}

const yes = `{"action":"accept","content":{"ok":true}}`

func result(id protocol.ID, text string) *protocol.Response {
	return &protocol.Response{ID: id, Result: json.RawMessage(text)}
}

// A screen is the client's end of a call: it takes frames and checks that each
// is what the published schema says, and may answer questions.
type screen struct {
	t       testing.TB
	version string
	answer  func(q *protocol.Request) // called on the router's goroutine
	fail    error
	stuck   bool

	mu     sync.Mutex
	frames []protocol.Message
}

func (s *screen) Deliver(ctx context.Context, m protocol.Message) error {
	if s.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.fail != nil {
		return s.fail
	}
	raw, err := protocol.AppendMessage(nil, m)
	if err != nil {
		s.t.Errorf("frame cannot be sent: %v", err)
	}
	version := s.version
	if version == "" {
		version = string(protocol.V20251125)
	}
	// some upstreams send it, and it is passed on
	wiretest.Validate(s.t, version, wiretest.Server, raw, "", "x-new")
	s.mu.Lock()
	s.frames = append(s.frames, m)
	s.mu.Unlock()
	if q, ok := m.(*protocol.Request); ok && s.answer != nil {
		s.answer(q)
	}
	return nil
}

// requests are the questions so far.
func (s *screen) requests() (all []*protocol.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.frames {
		if q, ok := m.(*protocol.Request); ok {
			all = append(all, q)
		}
	}
	return all
}

func (s *screen) notifications(method string) (all []*protocol.Notification) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.frames {
		if n, ok := m.(*protocol.Notification); ok && n.Method == method {
			all = append(all, n)
		}
	}
	return all
}

// answers makes a screen's client answer everything with text.
func (r *rig) answers(s *elicitation.Session, text string) *screen {
	sc := &screen{t: r.TB}
	sc.answer = func(q *protocol.Request) {
		if d := r.HandleReply(s.Sender(), result(q.ID, text)); d != elicitation.Accepted {
			r.Errorf("reply is %v, want accepted", d)
		}
	}
	return sc
}

// events are the names of all events so far, less "elicitation.".
func (r *rig) events() string {
	var names []string
	for _, e := range r.logs.All() {
		names = append(names, strings.TrimPrefix(e.Message, "elicitation."))
	}
	return strings.Join(names, " ")
}

func (r *rig) wantEvents(want string) {
	r.Helper()
	if got := r.events(); got != want {
		r.Errorf("events %q, want %q", got, want)
	}
}

// value adds up the series of a metric, those alone whose labels include the
// given ones.
func (r *rig) value(name string, labels ...string) float64 {
	r.Helper()
	return value(r.TB, r.registry, name, labels...)
}

func value(t testing.TB, g prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			fits := true
			for i := 0; i < len(labels); i += 2 {
				fits = fits && have[labels[i]] == labels[i+1]
			}
			if !fits {
				continue
			}
			found = true
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	if !found {
		t.Fatalf("no series %s%v", name, labels)
	}
	return sum
}

// books checks that the metrics of one scrape add up, and returns the sum of each.
func books(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	requests, pending := sums["elicitation_requests_total"], sums["elicitation_pending"]
	ended := sums["elicitation_completed_total"] + sums["elicitation_timeout_total"] +
		sums["elicitation_errors_total"] + sums["elicitation_cancelled_total"]
	if requests != ended+pending {
		t.Errorf("%v requests, but %v ended and %v are pending", requests, ended, pending)
	}
	return sums
}

// settled checks that nothing is pending and the metrics add up.
func (r *rig) settled() {
	r.Helper()
	if n := r.Pending(); n != 0 {
		r.Errorf("%d slots are taken, want none", n)
	}
	if pending := books(r.TB, r.registry)["elicitation_pending"]; pending != 0 {
		r.Errorf("%v pending, want none", pending)
	}
}

// refused wants an error of a kind with what the upstream is told.
func refused(t testing.TB, err, kind error, code int64, message string) {
	t.Helper()
	wire, ok := protocol.AsError(err)
	if !ok || !errors.Is(err, kind) {
		t.Fatalf("error is %v, want one that is %q", err, kind)
	}
	if wire.Code != code || wire.Message != message {
		t.Errorf("upstream is told %d %q, want %d %q", wire.Code, wire.Message, code, message)
	}
}

func contains(s, part string) bool { return strings.Contains(s, part) }

// offered puts one question to a session of alice's.
func (r *rig) offered() (*elicitation.Session, *offered, *outcome) {
	r.Helper()
	s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
	call := r.begin(elicitation.Origin{Session: s}, byHand(), "up")
	r.Cleanup(call.End)
	ended := &outcome{}
	put, err := offer(call, r.Context(), form("Deploy?"), nil,
		func(o outcome) { *ended = o })
	if err != nil {
		r.Fatal(err)
	}
	return s, put, ended
}

func (r *rig) complete(from elicitation.Sender, reply *protocol.Response,
	want elicitation.Disposition) {
	r.Helper()
	if d := r.HandleReply(from, reply); d != want {
		r.Errorf("reply is %v, want %v", d, want)
	}
}

type logFunc func(name string)

func (logFunc) Enabled(context.Context, event.Level) bool { return true }

func (f logFunc) Write(_ context.Context, _ event.Level, name string, _ event.Entry) { f(name) }

// logText returns all that is in the log.
func (r *rig) logText() (text string) {
	for _, e := range r.logs.All() {
		text += fmt.Sprintln(e.Message, e.ContextMap())
	}
	return text
}

func progress(id protocol.ID, n float64) *protocol.Notification {
	params, err := jsonx.Encode(protocol.Progress{Token: id, Progress: n})
	if err != nil {
		panic(err)
	}
	return &protocol.Notification{Method: protocol.NotifyProgress, Params: params}
}

// unused is the Via of a request on whose stream nothing may be asked.
func (r *rig) unused() elicitation.Via {
	return elicitation.ViaFrames(elicitation.DeliverFunc(
		func(context.Context, protocol.Message) error {
			r.Error("asked on the stream of a request")
			return nil
		}))
}

// abandon leaves a call that its client gave up and its upstream has not noticed.
func (r *rig) abandon(o elicitation.Origin, up elicitation.UpstreamKey) *elicitation.Call {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	c := r.beginIn(ctx, o, byHand(), up)
	cancel()
	c.End()
	return c
}
