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

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// A wired gateway is a minimal host: a router whose peers are read and written as bytes.
type wired struct {
	*scene
	err error // of the last question
}

// ask sends an upstream's question, and returns the response without common members.
func (w *wired) ask(ctx context.Context, up elicitation.UpstreamKey, params string) string {
	const head = `{"jsonrpc":"2.0","id":1,`
	m, err := protocol.DecodeMessage(
		[]byte(head + `"method":"elicitation/create","params":` + params + `}`))
	noError(w, err)
	answer, err := w.ElicitFrom(ctx, up, m.(*protocol.Request).Params)
	w.err = err
	return w.encode(outcome{answer, err}.Response(protocol.IntID(1)))
}

func (w *wired) encode(m protocol.Message) string {
	raw, err := protocol.AppendMessage(nil, m)
	noError(w, err)
	if _, response := m.(*protocol.Response); response {
		return strings.TrimSuffix(strings.TrimPrefix(string(raw), `{"jsonrpc":"2.0","id":1,`), "}")
	}
	return string(raw)
}

// reply makes the client answer each question with a response that has this member.
func (w *wired) reply(member string) {
	w.screen.answer = func(q *protocol.Request) {
		m, err := protocol.DecodeMessage(
			fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%v,%s}`, q.ID, member))
		if err != nil {
			w.Error(err)
			return
		}
		w.HandleReply(w.session.Sender(), m.(*protocol.Response))
	}
}

// replyAfter is reply with a slow delivery, and an answer after wait.
func (w *wired) replyAfter(delivery, wait time.Duration, member string) {
	w.reply(member)
	later := w.screen.answer
	w.screen.answer = func(q *protocol.Request) {
		time.Sleep(delivery)
		go func() { time.Sleep(max(wait, 1)); later(q) }()
	}
}

func (w *wired) deploys() string { return w.ask(w.Context(), "up", askDeploy) }

const (
	askDeploy = `{"message":"Deploy?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}`
	seenByAll = `{"jsonrpc":"2.0","id":ID,"method":"elicitation/create","params":` +
		`{"message":"Deploy?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}},` +
		`"_meta":{"progressToken":ID}}}`
)

func failed(code int64, message string) string {
	return fmt.Sprintf(`"error":{"code":%d,"message":%q}`, code, message)
}

// busy returns a refusal with RetryAfter.
func busy(message, data string) string {
	return fmt.Sprintf(`"error":{"code":%d,"message":%q,"data":{"retryAfterMs":5000%s}}`,
		protocol.CodeBusy, message, data)
}

// An entry is a log entry, without common fields and those of an existing question.
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

func question(event string, ms float64, more ...any) entry {
	return entry{"event": "elicitation." + event, "request_id": "ID", "action": "",
		"mode": "elicitation.form", "duration_ms": ms}.and(more...)
}

// seenByEach is a question's end as each side sees it.
type seenByEach struct {
	name      string
	opts      elicitation.Options
	caps      protocol.ClientCapabilities // zero: both modes
	reply     string                      // the client's immediate reply
	run       func(w *wired) string       // returns the upstream's response; nil: deploys
	upstream  string                      // "" means the client's reply
	withdrawn string                      // reason in the client's withdrawal
	logs      []entry
	counted   string // series whose value is one, except derived ones
}

// unseenAfter is a cancel sent wait after the delivery; the upstream gets it, unseen or not.
func unseenAfter(wait time.Duration, unseen bool) seenByEach {
	const delivery, cancel = 300 * time.Millisecond, `"result":{"action":"cancel"}`
	ms := float64((delivery + wait).Milliseconds())
	completed, label := question("completed", ms, "action", "cancel"), "cancel"
	if unseen {
		completed, label = completed.and("unseen", true), "unseen"
	}
	return seenByEach{name: fmt.Sprint("cancel after ", wait),
		opts: elicitation.Options{MinHumanTime: 400 * time.Millisecond},
		run: func(w *wired) string {
			w.replyAfter(delivery, wait, cancel)
			return w.deploys()
		},
		upstream: cancel,
		logs:     []entry{question("created", 0), question("delivered", 300), completed},
		counted:  "completed_total{" + label + "}"}
}

func timesOut(configured, after time.Duration) seenByEach {
	return seenByEach{name: fmt.Sprint("timeout ", configured),
		opts:     elicitation.Options{Timeout: configured},
		upstream: failed(protocol.CodeTimeout, "Elicitation timed out"),
		logs: []entry{question("created", 0), question("delivered", 0), question("timeout",
			float64(after.Milliseconds()), "code", int64(protocol.CodeTimeout))},
		withdrawn: "the question timed out", counted: "timeout_total"}
}

// TestWhatUpstreamClientAndOperatorSee checks texts, codes, frames, log entries and metrics of
// every way in which a question ends or is refused, with all members and fields.
func TestWhatUpstreamClientAndOperatorSee(t *testing.T) {
	created, delivered := question("created", 0), question("delivered", 0)
	completed := func(action string, more ...any) []entry {
		return []entry{created, delivered,
			question("completed", 0, "action", action).and(more...)}
	}
	ended := func(by string, code int64) []entry {
		return []entry{created, delivered, question("cancelled", 1000, "by", by, "code", code)}
	}
	const (
		noSession = `"error":{"code":-32601,"message":"No client session available"}`
		wrong     = "The client's answer is not valid"
		lost      = "Elicitation could not be delivered"
		overFor   = "the request that asked has ended"
		shutdown  = "The gateway is shutting down"
	)
	for _, test := range []seenByEach{
		{name: "accept", reply: `"result":{"action":"accept","content":{"ok":true,"n":9007199254740993}}`,
			logs: completed("accept"), counted: "completed_total{accept}"},
		{name: "decline", reply: `"result":{"action":"decline","content":{"ok":true}}`,
			upstream: `"result":{"action":"decline"}`,
			logs:     completed("decline"), counted: "completed_total{decline}"},
		{name: "case is not folded", reply: `"result":{"action":"decline","Action":"accept"}`,
			upstream: `"result":{"action":"decline"}`,
			logs:     completed("decline"), counted: "completed_total{decline}"},
		unseenAfter(0, true), unseenAfter(399*time.Millisecond, true),
		unseenAfter(401*time.Millisecond, false),
		{name: "cancel, after half a minute",
			run: func(w *wired) string {
				w.replyAfter(0, 30*time.Second, `"result":{"action":"cancel"}`)
				return w.deploys()
			},
			upstream: `"result":{"action":"cancel"}`,
			logs:     []entry{created, delivered, question("completed", 30000, "action", "cancel")},
			counted:  "completed_total{cancel}"},
		timesOut(time.Second, time.Second), timesOut(0, time.Minute),
		timesOut(20*time.Minute, 20*time.Minute),
		{name: "unknown mapping",
			run: func(w *wired) string {
				return w.ask(w.Context(), "up", string(ofCall("c9", []byte(askDeploy))))
			},
			upstream: noSession,
			logs: []entry{rejected(elicitation.ReasonNoSession, -32601, "downstream_session", "",
				"call_id", "c9")},
			counted: "rejected_total{no_session}"},
		{name: "outside any call",
			run:      func(w *wired) string { return w.ask(w.Context(), "idle", askDeploy) },
			upstream: noSession,
			logs: []entry{rejected(elicitation.ReasonNoSession, -32601, "downstream_session", "",
				"upstream_session", "idle", "call_id", nil)},
			counted: "rejected_total{no_session}"},
		{name: "after the end of the call",
			run: func(w *wired) string {
				w.call.End()
				return w.ask(w.Context(), "up", string(ofCall("c1", []byte(askDeploy))))
			},
			upstream: noSession,
			logs: []entry{
				rejected(elicitation.ReasonNoSession, -32601, "downstream_session", "")},
			counted: "rejected_total{no_session}"},
		{name: "two calls",
			run: func(w *wired) string {
				other := w.attach(elicitation.SessionInfo{ID: "s2"})
				w.begin(elicitation.Origin{Session: other}, byHand(), "up")
				return w.deploys()
			},
			upstream: noSession,
			logs: []entry{rejected(elicitation.ReasonAmbiguous, -32601, "downstream_session", "",
				"call_id", nil, "candidates", int64(2), "error", "2 calls could have caused it")},
			counted: "rejected_total{ambiguous_origin}"},
		{name: "client without elicitation",
			caps:     protocol.ClientCapabilities{Sampling: &protocol.SamplingCapability{}},
			upstream: failed(-32601, "Client does not support elicitation"),
			logs:     []entry{rejected(elicitation.ReasonCapability, -32601)},
			counted:  "rejected_total{capability}"},
		{name: "client without forms", caps: caps(false, true),
			upstream: failed(-32602, "Client does not support form elicitation"),
			logs:     []entry{rejected(elicitation.ReasonMode, -32602)},
			counted:  "rejected_total{mode}"},
		{name: "too many", opts: elicitation.Options{MaxPerPrincipal: 1},
			run: func(w *wired) string {
				go w.call.Elicit(w.Context(), json.RawMessage(askDeploy))
				synctest.Wait()
				return w.deploys()
			},
			upstream: busy("Too many elicitations are pending", `,"limit":"session"`),
			logs: []entry{created, delivered, rejected(elicitation.ReasonCapacity,
				int64(protocol.CodeBusy), "error", "limit: session")},
			counted: "rejected_total{capacity} pending"},
		{name: "the client cancels its request",
			run: func(w *wired) string {
				ctx, cancel := context.WithCancel(w.Context())
				w.call.End()
				w.beginIn(ctx, elicitation.Origin{Session: w.session, CallID: "c1"},
					elicitation.ViaFrames(w.screen), "up")
				time.AfterFunc(time.Second, cancel)
				return w.deploys()
			},
			upstream: failed(protocol.CodeFlowEnded,
				"Elicitation cancelled: the request that caused it has ended"),
			withdrawn: overFor, logs: ended("client", protocol.CodeFlowEnded),
			counted: "cancelled_total{client}"},
		{name: "the call ends",
			run: func(w *wired) string {
				time.AfterFunc(time.Second, w.call.End)
				return w.deploys()
			},
			upstream: failed(protocol.CodeFlowEnded,
				"Elicitation cancelled: the request that caused it has ended"),
			withdrawn: overFor, logs: ended("call", protocol.CodeFlowEnded),
			counted: "cancelled_total{call}"},
		{name: "the upstream takes the question back",
			run: func(w *wired) string {
				ctx, cancel := context.WithCancel(w.Context())
				time.AfterFunc(time.Second, cancel)
				return w.ask(ctx, "up", askDeploy)
			},
			upstream:  failed(protocol.CodeFlowEnded, "Elicitation cancelled"),
			withdrawn: "the server withdrew the question",
			logs:      ended("upstream", protocol.CodeFlowEnded),
			counted:   "cancelled_total{upstream}"},
		{name: "the session ends",
			run: func(w *wired) string {
				time.AfterFunc(time.Second, w.session.Detach)
				return w.deploys()
			},
			upstream: noSession, withdrawn: overFor, logs: ended("session", -32601),
			counted: "cancelled_total{session}"},
		{name: "the gateway shuts down",
			run: func(w *wired) string {
				gone, cancel := context.WithCancel(w.Context())
				cancel()
				time.AfterFunc(time.Second, func() { _ = w.Shutdown(gone) })
				return w.deploys()
			},
			upstream: busy(shutdown, ""), withdrawn: "the gateway is shutting down",
			logs:    ended("shutdown", int64(protocol.CodeBusy)),
			counted: "cancelled_total{shutdown}"},
		{name: "the client cannot be reached",
			run: func(w *wired) string {
				w.screen.fail = errors.New("stream is closed")
				return w.deploys()
			},
			upstream: failed(-32603, lost),
			logs: []entry{created, question("error", 0, "reason", "delivery", "code", int64(-32603),
				"error", "stream is closed")},
			counted: "errors_total{delivery}"},
		{name: "the client's stream is stuck", // found long before the timeout
			run: func(w *wired) string {
				w.screen.stuck = true
				return w.deploys()
			},
			upstream: failed(-32603, lost),
			logs: []entry{created, question("error", 10_000, "reason", "delivery",
				"code", int64(-32603),
				"error", "elicitation: the transport did not accept the question in time")},
			counted: "errors_total{delivery}"},
		{name: "the client cannot be reached by an SDK",
			run: func(w *wired) string {
				w.begin(elicitation.Origin{Session: w.session, CallID: "c1"},
					asksFor(errors.New("its text may quote an answer"))(nil), "sdk")
				return w.ask(w.Context(), "sdk", askDeploy)
			},
			upstream: failed(-32603, lost),
			logs: []entry{question("created", 0, "upstream_session", "sdk"),
				question("error", 0, "upstream_session", "sdk", "reason", "delivery",
					"code", int64(-32603), "error", "error of type *errors.errorString")},
			counted: "errors_total{delivery}"},
		{name: "no way to the client",
			run: func(w *wired) string {
				w.call.End()
				w.begin(elicitation.Origin{Session: w.session, CallID: "c1"}, elicitation.Via{},
					"up")
				return w.deploys()
			},
			upstream: failed(-32603, "The client cannot be reached"),
			logs: []entry{rejected(elicitation.ReasonDelivery, -32603,
				"error", "elicitation call: Begin got the zero Via")},
			counted: "rejected_total{delivery}"},
		{name: "the client's error", reply: `"error":{"code":-1,"message":"Not now","data":[1]}`,
			logs: []entry{created, delivered,
				question("error", 0, "reason", "client_error", "code", int64(-1))},
			counted: "errors_total{client_error}"},
		{name: "a result of something else", reply: `"result":{"roots":[]}`,
			upstream: failed(-32603, wrong),
			logs: []entry{created, delivered, question("error", 0, "reason", "invalid_reply",
				"code", int64(-32603), "error", "the result is not that of an elicitation")},
			counted: "errors_total{invalid_reply}"},
		{name: "content that does not fit the form",
			reply: `"result":{"action":"accept","content":{"ok":"x"}}`,
			logs: completed("accept",
				"violation", `form: field "ok": must be a boolean, got string`),
			counted: "completed_total{accept}"},
		{name: "a form that asks for a secret",
			run: func(w *wired) string {
				return w.ask(w.Context(), "up", `{"message":"Deploy?","requestedSchema":`+
					`{"type":"object","properties":{"pwd":{"type":"string"}}}}`)
			},
			upstream: failed(-32602, `Invalid elicitation request: requestedSchema: "pwd" looks `+
				`like a secret ("pwd"), and a form is no place for one: ask for it with `+
				`a URL elicitation`),
			logs:    []entry{rejected(elicitation.ReasonSecret, -32602)},
			counted: "rejected_total{secret}"},
		{name: "a call that is refused", // here the client gets the error
			run: func(w *wired) string {
				w.session.Detach()
				return w.refusedCall()
			},
			upstream: noSession,
			logs:     []entry{rejected(elicitation.ReasonNoSession, -32601, "message", "")},
			counted:  "rejected_total{no_session}"},
		{name: "a call while the gateway shuts down",
			run: func(w *wired) string {
				_ = w.Shutdown(w.Context())
				return w.refusedCall()
			},
			upstream: busy(shutdown, ""),
			logs: []entry{rejected(elicitation.ReasonShutdown, int64(protocol.CodeBusy),
				"message", "")},
			counted: "rejected_total{shutdown}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wired{scene: &scene{rig: newRig(t, test.opts), screen: &screen{t: t}}}
				w.session = w.attach(elicitation.SessionInfo{ID: "s1", Capabilities: test.caps})
				w.call = w.begin(elicitation.Origin{Session: w.session, CallID: "c1"},
					elicitation.ViaFrames(w.screen), "up")
				if test.reply != "" {
					w.reply(test.reply)
				}
				if test.run == nil {
					test.run = (*wired).deploys
				}
				if test.upstream == "" {
					test.upstream = test.reply
				}
				got := test.run(w)
				synctest.Wait()
				wantEqual(t, "the upstream gets", got, test.upstream)
				id := w.wantLogs(test.logs)
				w.wantClient(test.logs, test.withdrawn, id)
				w.wantMetrics(test.counted)
				w.wantEndOnce(test.logs[len(test.logs)-1], test.withdrawn)
			})
		})
	}
}

func (w *wired) refusedCall() string {
	origin := elicitation.Origin{Session: w.session, CallID: "c1"}
	_, err := w.Begin(w.Context(), origin, byHand(), "up")
	return w.encode(outcome{Err: err}.Response(protocol.IntID(1)))
}

// wantEndOnce checks that a reply after the end has no effect.
func (w *wired) wantEndOnce(end entry, withdrawn string) {
	w.Helper()
	if by, _ := end["by"].(string); by != "" {
		e, ok := errors.AsType[*elicitation.Error](w.err)
		if !ok || string(e.By) != by || e.RequestID == "" {
			w.Errorf("the error is %+v, want one by %s", e, by)
		}
	}
	asked, before := w.screen.requests(), w.events()
	if len(asked) == 0 || end["event"] == "elicitation.rejected" {
		return
	}
	want := elicitation.Duplicate
	if withdrawn != "" {
		want = elicitation.Expired
	}
	w.complete(w.session.Sender(), result(asked[0].ID, yes), want)
	w.wantEvents(before)
	w.settled()
}

// wantLogs compares all fields of all entries, and returns the id of the question.
func (w *wired) wantLogs(want []entry) (id string) {
	w.Helper()
	all := w.logs.All()
	for i, e := range all {
		got := e.ContextMap()
		if s, _ := got["request_id"].(string); s != "" {
			refused := e.Message == "elicitation.rejected" // has an id of its own
			if len(s) < 32 || id != "" && (s == id) == refused {
				w.Errorf("the id of %s is %q, before %q", e.Message, s, id)
			}
			if !refused {
				id = s
			}
			got["request_id"] = "ID"
		}
		wantEqual(w, "the event of the entry", e.Message, got["event"])
		if i >= len(want) {
			w.Errorf("log entry %d is one too many: %v", i, got)
			continue
		}
		full := entry{"upstream_session": "up", "downstream_session": "s1", "message": "Deploy?",
			"duration_ms": 0.0, "call_id": "c1"}
		maps.Copy(full, want[i])
		maps.DeleteFunc(full, func(_ string, v any) bool { return v == nil })
		wantEqual(w, fmt.Sprint("log entry ", i), fmt.Sprint(full), fmt.Sprint(entry(got)))
	}
	if len(all) < len(want) {
		w.Errorf("%d log entries, want %d", len(all), len(want))
	}
	return id
}

// wantClient compares the client's frames: a question logged as delivered, and a withdrawal.
func (w *wired) wantClient(logs []entry, withdrawn, id string) {
	w.Helper()
	var got, want []string
	if len(logs) > 1 && logs[1]["event"] == "elicitation.delivered" {
		want = append(want, seenByAll)
	}
	if withdrawn != "" {
		want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled",`+
			`"params":{"requestId":ID,"reason":%q}}`, withdrawn))
	}
	w.screen.mu.Lock()
	defer w.screen.mu.Unlock()
	for _, m := range w.screen.frames {
		got = append(got, strings.ReplaceAll(w.encode(m), `"`+id+`"`, "ID"))
	}
	if !slices.Equal(got, want) {
		w.Errorf("the client gets\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// wantMetrics compares all non-zero series, except derived ones: requests and durations.
func (w *wired) wantMetrics(want string) {
	w.Helper()
	full := map[string]float64{}
	for name := range strings.FieldsSeq(want) {
		full[name] = 1
		if !strings.HasPrefix(name, "rejected_total") {
			full["requests_total"]++
			if name != "pending" {
				full["duration_seconds"]++
			}
		}
	}
	if got := series(w.TB, w.registry); !maps.Equal(got, full) {
		w.Errorf("metrics are\n%v, want\n%v", got, full)
	}
	books(w.TB, w.registry)
}
