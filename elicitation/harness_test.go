package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/promtest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
	"github.com/rondo-mcp/rondo/server/middleware/zaplog"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A rig is a router with inspectable logs and metrics.
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
	if o.MinHumanTime == 0 { // tests answer at once
		o.MinHumanTime = -1
	}
	router, err := elicitation.New(&o)
	noError(t, err)
	return &rig{TB: t, Router: router, logs: logs, registry: registry}
}

// The variable silent is a no-op log for measurements.
var silent = zaplog.New(zap.NewNop())

// asker is the Via of an SDK whose client is a function.
func asker(answer func(ctx context.Context, q elicitation.Question, delivered func()) (string,
	error)) elicitation.Via {
	return elicitation.ViaAsker(elicitation.AskFunc(func(ctx context.Context,
		q elicitation.Question, delivered func()) (json.RawMessage, error) {
		text, err := answer(ctx, q, delivered)
		return json.RawMessage(text), err
	}))
}

// The function sends returns the Via of a transport that is a function.
func sends(f func(ctx context.Context, m protocol.Message) error) elicitation.Via {
	return elicitation.ViaFrames(elicitation.DeliverFunc(f))
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
	noError(r, err)
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
	noError(r, err)
	r.Cleanup(c.End)
	return c
}

// A scene is a rig with alice's session s1, and a call of it on the connection "up".
type scene struct {
	*rig
	session *elicitation.Session
	call    *elicitation.Call
	screen  *screen
}

// newScene's client answers with says, or does not answer if says is "".
func newScene(t testing.TB, o elicitation.Options, says string) *scene {
	t.Helper()
	sc := &screen{t: t}
	s := newSceneVia(t, o, elicitation.ViaFrames(sc))
	s.screen = sc
	if says != "" {
		sc.answer = s.answers(s.session, says).answer
	}
	return s
}

func newSceneVia(t testing.TB, o elicitation.Options, via elicitation.Via) *scene {
	t.Helper()
	s := &scene{rig: newRig(t, o)}
	s.session = s.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
	s.call = s.begin(elicitation.Origin{Session: s.session}, via, "up")
	return s
}

func (s *scene) ask(params json.RawMessage) (*protocol.ElicitResult, error) {
	return s.call.Elicit(s.Context(), params)
}

const schema = `{"type":"object","properties":{"ok":{"type":"boolean"},"n":{"type":"integer"}},"required":["ok"]}`

func form(message string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"mode":"form","message":%q,"requestedSchema":%s}`, message, schema))
}

// ofCall returns a question that names its call, or no call if id is "".
func ofCall(id string, question json.RawMessage) json.RawMessage {
	if id == "" {
		return question
	}
	return append([]byte(`{"_meta":{"`+elicitation.MetaCall+`":"`+id+`"},`), question[1:]...)
}

func urlQuestion(message, url, id string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"mode":"url","message":%q,"url":%q,"elicitationId":%q}`, message, url, id))
}

const yes = `{"action":"accept","content":{"ok":true}}`

func result(id protocol.ID, text string) *protocol.Response {
	return &protocol.Response{ID: id, Result: json.RawMessage(text)}
}

// A screen is a call's client: it validates frames by the published schema, and may answer.
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
	// some upstreams send such members, and they are passed on
	wiretest.Validate(s.t, version, wiretest.Server, raw, "", "x-new")
	s.mu.Lock()
	s.frames = append(s.frames, m)
	s.mu.Unlock()
	if q, ok := m.(*protocol.Request); ok && s.answer != nil {
		s.answer(q)
	}
	return nil
}

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

// The method answers returns a screen whose client answers every question with text.
func (r *rig) answers(s *elicitation.Session, text string) *screen {
	sc := &screen{t: r.TB}
	sc.answer = func(q *protocol.Request) {
		wantEqual(r, "reply", r.HandleReply(s.Sender(), result(q.ID, text)), elicitation.Accepted)
	}
	return sc
}

// events returns the names of all events so far, without "elicitation.".
func (r *rig) events() string {
	var names []string
	for _, e := range r.logs.All() {
		names = append(names, strings.TrimPrefix(e.Message, "elicitation."))
	}
	return strings.Join(names, " ")
}

func (r *rig) wantEvents(want string) {
	r.Helper()
	wantEqual(r, "events", r.events(), want)
}

var labelled = regexp.MustCompile(`[a-z]+="([^"]*)"`)

// series returns the non-zero metrics by name and label values, without "elicitation_".
func series(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for name, n := range promtest.Series(t, g) {
		if n != 0 {
			all[labelled.ReplaceAllString(strings.TrimPrefix(name, "elicitation_"), "$1")] = n
		}
	}
	return all
}

// books checks that the metrics of one scrape add up, and returns the sum of each.
func books(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	sums := map[string]float64{}
	for name, n := range series(t, g) {
		name, _, _ = strings.Cut(name, "{")
		sums[name] += n
	}
	ended := sums["completed_total"] + sums["timeout_total"] + sums["errors_total"] +
		sums["cancelled_total"]
	wantEqual(t, "questions that ended or are pending", sums["requests_total"],
		ended+sums["pending"])
	return sums
}

func (r *rig) wantCounted(name string, want float64) {
	r.Helper()
	wantEqual(r, name, series(r.TB, r.registry)[name], want)
}

func (r *rig) settled() {
	r.Helper()
	wantEqual(r, "slots taken", r.Pending(), 0)
	wantEqual(r, "pending", books(r.TB, r.registry)["pending"], 0.0)
}

// The function refused checks an error's kind and the upstream's error.
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

// The method offered puts one question to a session of alice.
func (r *rig) offered() (*elicitation.Session, *offered, *outcome) {
	r.Helper()
	s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
	put, ended := r.put(r.begin(elicitation.Origin{Session: s}, byHand(), "up"), form("Deploy?"))
	return s, put, ended
}

// put delivers a question of a call by hand.
func (r *rig) put(c *elicitation.Call, params json.RawMessage) (*offered, *outcome) {
	r.Helper()
	ended := &outcome{}
	put, err := offer(c, r.Context(), params, func(o outcome) { *ended = o })
	noError(r, err)
	return put, ended
}

func (r *rig) complete(from elicitation.Sender, reply *protocol.Response,
	want elicitation.Disposition) {
	r.Helper()
	wantEqual(r, "reply", r.HandleReply(from, reply), want)
}

type logFunc func(name string)

func (logFunc) Enabled(context.Context, event.Level) bool { return true }

func (f logFunc) Write(_ context.Context, _ event.Level, name string, _ event.Entry) { f(name) }

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

// abandon leaves a call that its client cancelled and its upstream has not noticed.
func (r *rig) abandon(o elicitation.Origin, up elicitation.UpstreamKey) *elicitation.Call {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	c := r.beginIn(ctx, o, byHand(), up)
	cancel()
	c.End()
	return c
}

var (
	noError   = testkit.NoError
	wantIs    = testkit.WantIs
	wantEqual = testkit.WantEqual
)
