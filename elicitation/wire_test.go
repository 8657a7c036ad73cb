package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// A wired gateway is a router between an upstream and a client that are read and written as
// bytes: the least that a host has to do.
type wired struct {
	*rig
	t       *testing.T
	session *elicitation.Session
	call    *elicitation.Call
	screen  *screen // the client's
	upID    int64
}

// ask is a frame of the upstream with a question. It returns the frame that the upstream gets.
func (w *wired) ask(ctx context.Context, up elicitation.UpstreamKey, params string,
	opts *elicitation.ElicitOptions) string {
	w.upID++
	raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":%s}`,
		w.upID, params)
	m, err := protocol.DecodeMessage([]byte(raw))
	if err != nil {
		w.t.Fatal(err)
	}
	q := m.(*protocol.Request)
	answer, err := w.ElicitFrom(ctx, up, q.Params, opts)
	return encode(w.t, outcome{answer, err}.Response(q.ID))
}

func encode(t *testing.T, m protocol.Message) string {
	raw, err := protocol.AppendMessage(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// reply makes the client answer each question with a frame, in which ID stands for its id.
func (w *wired) reply(frame string) {
	w.screen.answer = func(q *protocol.Request) {
		m, err := protocol.DecodeMessage([]byte(strings.ReplaceAll(frame, "ID", q.ID.String())))
		if err != nil {
			w.t.Error(err)
			return
		}
		w.HandleReply(w.session.Sender(), m.(*protocol.Response))
	}
}

const (
	askDeploy = `{"message":"Deploy?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}`
	seenByAll = `{"jsonrpc":"2.0","id":ID,"method":"elicitation/create","params":` +
		`{"message":"Deploy?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}},` +
		`"_meta":{"progressToken":ID}}}`
	failedWith = `{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":%q}}`
)

func withdrawnFor(reason string) string {
	return fmt.Sprintf(
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID,"reason":%q}}`, reason)
}

// entry is a log entry without the fields that all have in common, less those of a question that
// exists.
type entry map[string]any

func rejected(reason elicitation.Reason, code int64, more ...any) entry {
	return entry{"event": "elicitation.rejected", "request_id": "ID", "action": "",
		"reason": string(reason), "code": code}.and(more...)
}

func (e entry) and(more ...any) entry {
	for i := 0; i < len(more); i += 2 {
		e[more[i].(string)] = more[i+1]
	}
	return e
}

// question is an entry of a question that exists.
func question(event string, ms float64, more ...any) entry {
	return entry{"event": "elicitation." + event, "request_id": "ID", "action": "",
		"mode":        "elicitation.form",
		"duration_ms": ms}.and(more...)
}

// seenByEach is how a question ends, and what each side reads of it.
type seenByEach struct {
	name     string
	opts     elicitation.Options
	caps     protocol.ClientCapabilities // zero: both modes
	run      func(w *wired) string       // returns what the upstream gets
	upstream string
	client   []string
	logs     []entry
	metrics  map[string]float64
}

// unseenAfter is a cancel that comes so long after the delivery, which takes a while itself. It is
// unseen or not; the upstream reads the action of the client in either case.
func unseenAfter(wait time.Duration, unseen bool) seenByEach {
	const delivery = 300 * time.Millisecond
	ms := float64((delivery + wait).Milliseconds())
	completed, label := question("completed", ms, "action", "cancel"), "cancel"
	if unseen {
		completed, label = completed.and("unseen", true), "unseen"
	}
	return seenByEach{name: fmt.Sprint("cancel after ", wait),
		opts: elicitation.Options{MinHumanTime: 400 * time.Millisecond},
		run: func(w *wired) string {
			w.reply(`{"jsonrpc":"2.0","id":ID,"result":{"action":"cancel"}}`)
			later := w.screen.answer
			w.screen.answer = func(q *protocol.Request) {
				time.Sleep(delivery)
				go func() { time.Sleep(max(wait, 1)); later(q) }()
			}
			return w.ask(w.t.Context(), "up", askDeploy, nil)
		},
		upstream: `{"jsonrpc":"2.0","id":1,"result":{"action":"cancel"}}`,
		client:   []string{seenByAll},
		logs:     []entry{question("created", 0), question("delivered", 300), completed},
		metrics:  map[string]float64{"completed_total{" + label + "}": 1}}
}

// TestWhatUpstreamClientAndOperatorSee holds the texts, codes, frames, log entries and metrics of
// every way in which a question ends or is refused, each of them whole: all members and fields,
// and no others.
func TestWhatUpstreamClientAndOperatorSee(t *testing.T) {
	created, delivered := question("created", 0), question("delivered", 0)
	const noSession = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"No client session available"}}`
	for _, test := range []seenByEach{
		{name: "accept",
			run: func(w *wired) string {
				w.reply(`{"jsonrpc":"2.0","id":ID,"result":{"action":"accept","content":{"ok":true}}}`)
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"ok":true}}}`,
			client:   []string{seenByAll},
			logs:     []entry{created, delivered, question("completed", 0, "action", "accept")},
			metrics:  map[string]float64{"completed_total{accept}": 1}},
		{name: "decline",
			run: func(w *wired) string {
				w.reply(`{"jsonrpc":"2.0","id":ID,"result":{"action":"decline"}}`)
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: `{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}`,
			client:   []string{seenByAll},
			logs:     []entry{created, delivered, question("completed", 0, "action", "decline")},
			metrics:  map[string]float64{"completed_total{decline}": 1}},
		unseenAfter(0, true), unseenAfter(399*time.Millisecond, true),
		unseenAfter(401*time.Millisecond, false),
		{name: "cancel, after half a minute",
			run: func(w *wired) string {
				w.reply(`{"jsonrpc":"2.0","id":ID,"result":{"action":"cancel"}}`)
				later := w.screen.answer
				w.screen.answer = func(q *protocol.Request) {
					go func() { time.Sleep(30 * time.Second); later(q) }()
				}
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: `{"jsonrpc":"2.0","id":1,"result":{"action":"cancel"}}`,
			client:   []string{seenByAll},
			logs:     []entry{created, delivered, question("completed", 30000, "action", "cancel")},
			metrics:  map[string]float64{"completed_total{cancel}": 1}},
		{name: "timeout", opts: elicitation.Options{Timeout: time.Second},
			run:      func(w *wired) string { return w.ask(w.t.Context(), "up", askDeploy, nil) },
			upstream: fmt.Sprintf(failedWith, protocol.CodeTimeout, "Elicitation timed out"),
			client:   []string{seenByAll, withdrawnFor("the question timed out")},
			logs: []entry{created, delivered,
				question("timeout", 1000, "code", int64(protocol.CodeTimeout))},
			metrics: map[string]float64{"timeout_total": 1}},
		{name: "unknown mapping",
			run: func(w *wired) string {
				return w.ask(w.t.Context(), "up", askDeploy,
					&elicitation.ElicitOptions{CallID: "c9"})
			},
			upstream: noSession,
			logs: []entry{rejected(elicitation.ReasonNoSession, -32601, "downstream_session", "",
				"call_id", "c9")},
			metrics: map[string]float64{"rejected_total{no_session}": 1}},
		{name: "outside any call",
			run:      func(w *wired) string { return w.ask(w.t.Context(), "idle", askDeploy, nil) },
			upstream: noSession,
			logs: []entry{rejected(elicitation.ReasonNoSession, -32601, "downstream_session", "",
				"upstream_session", "idle", "call_id", nil)},
			metrics: map[string]float64{"rejected_total{no_session}": 1}},
		{name: "after the end of the call",
			run: func(w *wired) string {
				w.call.End()
				return w.ask(w.t.Context(), "up", askDeploy,
					&elicitation.ElicitOptions{CallID: "c1"})
			},
			upstream: noSession,
			logs: []entry{rejected(elicitation.ReasonNoSession, -32601,
				"downstream_session", "")},
			metrics: map[string]float64{"rejected_total{no_session}": 1}},
		{name: "two calls",
			run: func(w *wired) string {
				other := w.attach(elicitation.SessionInfo{ID: "s2"})
				defer w.begin(elicitation.Origin{Session: other}, byHand(), "up").End()
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: noSession,
			logs: []entry{rejected(elicitation.ReasonAmbiguous, -32601, "downstream_session", "",
				"call_id", nil, "candidates", int64(2), "error", "2 calls could have caused it")},
			metrics: map[string]float64{"rejected_total{ambiguous_origin}": 1}},
		{name: "client without elicitation",
			caps:     protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}},
			run:      func(w *wired) string { return w.ask(w.t.Context(), "up", askDeploy, nil) },
			upstream: fmt.Sprintf(failedWith, -32601, "Client does not support elicitation"),
			logs:     []entry{rejected(elicitation.ReasonCapability, -32601)},
			metrics:  map[string]float64{"rejected_total{capability}": 1}},
		{name: "client without forms", caps: caps(false, true),
			run:      func(w *wired) string { return w.ask(w.t.Context(), "up", askDeploy, nil) },
			upstream: fmt.Sprintf(failedWith, -32602, "Client does not support form elicitation"),
			logs:     []entry{rejected(elicitation.ReasonMode, -32602)},
			metrics:  map[string]float64{"rejected_total{mode}": 1}},
		{name: "too many", opts: elicitation.Options{MaxPerPrincipal: 1},
			run: func(w *wired) string {
				go w.call.Elicit(w.t.Context(), json.RawMessage(askDeploy), nil)
				synctest.Wait()
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":`+
				`"Too many elicitations are pending","data":{"retryAfterMs":5000,"limit":"session"}}}`,
				protocol.CodeBusy),
			client: []string{seenByAll},
			logs: []entry{created, delivered, rejected(elicitation.ReasonCapacity,
				int64(protocol.CodeBusy), "error", "limit: session")},
			metrics: map[string]float64{"rejected_total{capacity}": 1, "pending": 1}},
		{name: "the client cancels its request",
			run: func(w *wired) string {
				ctx, cancel := context.WithCancel(w.t.Context())
				c := w.beginIn(ctx, elicitation.Origin{Session: w.session, CallID: "c1"},
					elicitation.ViaFrames(w.screen), "cancelled")
				defer c.End()
				time.AfterFunc(time.Second, cancel)
				return w.ask(w.t.Context(), "cancelled", askDeploy, nil)
			},
			upstream: fmt.Sprintf(failedWith, protocol.CodeFlowEnded,
				"Elicitation cancelled: the request that caused it has ended"),
			client: []string{seenByAll, withdrawnFor("the request that asked has ended")},
			logs: []entry{question("created", 0, "upstream_session", "cancelled"),
				question("delivered", 0, "upstream_session", "cancelled"),
				question("cancelled", 1000, "upstream_session", "cancelled", "by", "client",
					"code", int64(protocol.CodeFlowEnded))},
			metrics: map[string]float64{"cancelled_total{client}": 1}},
		{name: "the session ends",
			run: func(w *wired) string {
				time.AfterFunc(time.Second, w.session.Detach)
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: noSession,
			client:   []string{seenByAll, withdrawnFor("the request that asked has ended")},
			logs: []entry{created, delivered,
				question("cancelled", 1000, "by", "session", "code", int64(-32601))},
			metrics: map[string]float64{"cancelled_total{session}": 1}},
		{name: "the gateway shuts down",
			run: func(w *wired) string {
				gone, cancel := context.WithCancel(w.t.Context())
				cancel()
				time.AfterFunc(time.Second, func() { _ = w.Shutdown(gone) })
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":`+
				`"The gateway is shutting down","data":{"retryAfterMs":5000}}}`, protocol.CodeBusy),
			client: []string{seenByAll, withdrawnFor("the gateway is shutting down")},
			logs: []entry{created, delivered,
				question("cancelled", 1000, "by", "shutdown", "code", int64(protocol.CodeBusy))},
			metrics: map[string]float64{"cancelled_total{shutdown}": 1}},
		{name: "the client cannot be reached",
			run: func(w *wired) string {
				w.screen.fail = errors.New("stream is closed")
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: fmt.Sprintf(failedWith, -32603, "Elicitation could not be delivered"),
			logs: []entry{created, question("error", 0, "reason", "delivery", "code", int64(-32603),
				"error", "stream is closed")},
			metrics: map[string]float64{"errors_total{delivery}": 1}},
		{name: "the client cannot be reached by an SDK",
			run: func(w *wired) string {
				defer w.begin(elicitation.Origin{Session: w.session, CallID: "c1"},
					asksFor(errors.New("its text may quote an answer"))(nil), "sdk").End()
				return w.ask(w.t.Context(), "sdk", askDeploy, nil)
			},
			upstream: fmt.Sprintf(failedWith, -32603, "Elicitation could not be delivered"),
			logs: []entry{question("created", 0, "upstream_session", "sdk"),
				question("error", 0, "upstream_session", "sdk", "reason", "delivery",
					"code", int64(-32603), "error", "error of type *errors.errorString")},
			metrics: map[string]float64{"errors_total{delivery}": 1}},
		{name: "the client's error",
			run: func(w *wired) string {
				w.reply(`{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"Not now","data":[1]}}`)
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"Not now","data":[1]}}`,
			client:   []string{seenByAll},
			logs: []entry{created, delivered,
				question("error", 0, "reason", "client_error", "code", int64(-1))},
			metrics: map[string]float64{"errors_total{client_error}": 1}},
		{name: "a result of something else",
			run: func(w *wired) string {
				w.reply(`{"jsonrpc":"2.0","id":ID,"result":{"roots":[]}}`)
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: fmt.Sprintf(failedWith, -32603, "The client's answer is not valid"),
			client:   []string{seenByAll},
			logs: []entry{created, delivered, question("error", 0, "reason", "invalid_reply",
				"code", int64(-32603), "error", "the result is not that of an elicitation")},
			metrics: map[string]float64{"errors_total{invalid_reply}": 1}},
		{name: "content that does not fit the form",
			run: func(w *wired) string {
				w.reply(`{"jsonrpc":"2.0","id":ID,"result":{"action":"accept","content":{"ok":"x"}}}`)
				return w.ask(w.t.Context(), "up", askDeploy, nil)
			},
			upstream: `{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"ok":"x"}}}`,
			client:   []string{seenByAll},
			logs: []entry{created, delivered, question("completed", 0, "action", "accept",
				"violation", `form: field "ok": must be a boolean, got string`)},
			metrics: map[string]float64{"completed_total{accept}": 1}},
		{name: "a form that asks for a secret",
			run: func(w *wired) string {
				return w.ask(w.t.Context(), "up", `{"message":"Deploy?","requestedSchema":`+
					`{"type":"object","properties":{"pwd":{"type":"string"}}}}`, nil)
			},
			upstream: fmt.Sprintf(failedWith, -32602, `Invalid elicitation request: requestedSchema: `+
				`"pwd" looks like a secret ("pwd"), and a form is no place for one: ask for it with `+
				`a URL elicitation`),
			logs:    []entry{rejected(elicitation.ReasonSecret, -32602)},
			metrics: map[string]float64{"rejected_total{secret}": 1}},
		{name: "a call that is refused",
			run: func(w *wired) string {
				w.session.Detach()
				origin := elicitation.Origin{Session: w.session, CallID: "c1"}
				_, err := w.Begin(w.t.Context(), origin, byHand(), "up")
				return encode(w.t, outcome{Err: err}.Response(protocol.IntID(1)))
			},
			upstream: noSession, // here the client
			logs:     []entry{rejected(elicitation.ReasonNoSession, -32601, "message", "")},
			metrics:  map[string]float64{"rejected_total{no_session}": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wired{rig: newRig(t, test.opts), t: t, screen: &screen{t: t}}
				via := elicitation.ViaFrames(w.screen)
				w.session = w.attach(elicitation.SessionInfo{ID: "s1",
					Capabilities: test.caps})
				w.call = w.begin(elicitation.Origin{Session: w.session, CallID: "c1"}, via, "up")
				defer w.call.End()
				got := test.run(w)
				synctest.Wait()
				if got != test.upstream {
					t.Errorf("the upstream gets\n%s, want\n%s", got, test.upstream)
				}
				id := w.wantLogs(test.logs)
				w.wantClient(test.client, id)
				w.wantMetrics(test.metrics)
			})
		})
	}
}

// wantLogs compares all fields of all entries, and returns the id of the question.
func (w *wired) wantLogs(want []entry) (id string) {
	w.t.Helper()
	all := w.logs.All()
	for i, e := range all {
		got := e.ContextMap()
		if s, _ := got["request_id"].(string); s != "" {
			refused := e.Message == "elicitation.rejected" // has an id of its own
			if len(s) < 32 || id != "" && (s == id) == refused {
				w.t.Errorf("the id of %s is %q, before %q", e.Message, s, id)
			}
			if !refused {
				id = s
			}
			got["request_id"] = "ID"
		}
		if e.Message != got["event"] {
			w.t.Errorf("the entry %s has the event %v", e.Message, got["event"])
		}
		if i >= len(want) {
			w.t.Errorf("log entry %d is one too many: %v", i, got)
			continue
		}
		full := entry{"upstream_session": "up", "downstream_session": "s1", "message": "Deploy?",
			"duration_ms": 0.0, "call_id": "c1"}
		maps.Copy(full, want[i])
		maps.DeleteFunc(full, func(_ string, v any) bool { return v == nil })
		if fmt.Sprint(full) != fmt.Sprint(entry(got)) {
			w.t.Errorf("log entry %d is\n%v, want\n%v", i, entry(got), full)
		}
	}
	if len(all) < len(want) {
		w.t.Errorf("%d log entries, want %d", len(all), len(want))
	}
	return id
}

// wantClient compares the frames that the client has got.
func (w *wired) wantClient(want []string, id string) {
	w.t.Helper()
	w.screen.mu.Lock()
	defer w.screen.mu.Unlock()
	var got []string
	for _, m := range w.screen.frames {
		got = append(got, strings.ReplaceAll(encode(w.t, m), `"`+id+`"`, "ID"))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("the client gets\n%s\nwant\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// wantMetrics compares all series that are not zero. Those that follow from others are left out
// of want: what was asked, and how long it took.
func (w *wired) wantMetrics(want map[string]float64) {
	w.t.Helper()
	full, asked, ended := maps.Clone(want), 0.0, 0.0
	for name, n := range want {
		if !strings.HasPrefix(name, "rejected_total") {
			asked += n
		}
		if !strings.HasPrefix(name, "rejected_total") && name != "pending" {
			ended += n
		}
	}
	full["requests_total"], full["duration_seconds"] = asked, ended
	maps.DeleteFunc(full, func(_ string, n float64) bool { return n == 0 })
	if got := series(w.t, w.registry); !maps.Equal(got, full) {
		w.t.Errorf("metrics are\n%v, want\n%v", got, full)
	}
	books(w.t, w.registry)
}

// series returns what is not zero, by name and label, less "elicitation_".
func series(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "elicitation_")
			for _, l := range m.GetLabel() {
				name += "{" + l.GetValue() + "}"
			}
			n := m.GetCounter().GetValue() + m.GetGauge().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
			if n != 0 {
				all[name] = n
			}
		}
	}
	return all
}
