package elicitation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A session that was sent to several URLs leaves none behind.
func TestDetachForgetsAllVisits(t *testing.T) {
	for _, n := range []int{2, 3, 10} {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Notify: &screen{t: t}})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(r.answers(s, `{"action":"accept"}`)), "up")
		for i := range n {
			if _, err := call.Elicit(t.Context(), visit("m", "https://id.example/", fmt.Sprint(i)), nil); err != nil {
				t.Fatal(err)
			}
		}
		s.Detach()
		for i := range n {
			r.visited("up", fmt.Sprint(i), elicitation.Unknown)
		}
		call.End()
	}
}

type auditFunc func(elicitation.Event)

func (f auditFunc) Audit(e elicitation.Event) { f(e) }

// Code of the host's that panics costs no slot, and no question its one end.
func TestPanicsOfTheHost(t *testing.T) {
	audit := func(kind elicitation.EventKind) elicitation.Options {
		return elicitation.Options{Audit: auditFunc(func(e elicitation.Event) {
			if e.Kind == kind {
				panic("audit")
			}
		})}
	}
	logger := zap.New(zapcore.NewNopCore(), zap.WrapCore(func(c zapcore.Core) zapcore.Core { return panickingCore{c} }))
	for _, test := range []struct {
		name    string
		options elicitation.Options
		clock   func() func()
		offered bool
	}{
		{"redactor", elicitation.Options{Redactor: func(string) string { panic("redactor") }}, nil, false},
		{"pause", elicitation.Options{}, func() func() { panic("pause") }, false},
		{"resume", elicitation.Options{}, func() func() { return func() { panic("resume") } }, true},
		{"audit of the creation", audit(elicitation.EventCreated), nil, true},
		{"audit of the delivery", audit(elicitation.EventDelivered), nil, true},
		{"audit of the end", audit(elicitation.EventCompleted), nil, true},
		{"logger", elicitation.Options{Logger: logger}, nil, true},
		{"watcher of the beginning", elicitation.Options{}, nil, true},
		{"watcher of the end", elicitation.Options{}, nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.options)
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			ctx := roundtrip.WatchWaiting(t.Context(), func(waiting bool) {
				if waiting && test.name == "watcher of the beginning" || !waiting && test.name == "watcher of the end" {
					panic("watcher")
				}
			})
			call := r.beginIn(ctx, elicitation.Origin{Session: s, PauseClock: test.clock}, elicitation.Via{}, "up")
			ends := 0
			var offered *elicitation.Offered
			func() {
				defer func() { _ = recover() }()
				offered, _ = call.Offer(t.Context(), form("m"), nil, func(elicitation.Outcome) { ends++ })
			}()
			if (offered != nil) != test.offered {
				t.Fatalf("offered is %v", offered)
			}
			if offered != nil {
				offered.Delivered()
				if d, err := r.Complete(t.Context(), s.From(), result(offered.Request().ID, yes)); d != elicitation.Accepted || err != nil {
					t.Errorf("the reply is %v, %v", d, err)
				}
				if ends != 1 {
					t.Errorf("the question ended %d times", ends)
				}
			}
			call.End()
			r.settled()
		})
	}
}

type panickingCore struct{ zapcore.Core }

func (panickingCore) Enabled(zapcore.Level) bool { return true }
func (c panickingCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return checked.AddCore(e, c)
}
func (panickingCore) Write(zapcore.Entry, []zapcore.Field) error { panic("logger") }

// What was checked is what a client reads, even one that ignores case, as
// encoding/json does.
func TestMembersThatDifferInCase(t *testing.T) {
	const form = `"message":"m","requestedSchema":{"type":"object","properties":{}}`
	for _, test := range []struct {
		params string
		taken  bool
	}{
		{`{` + form + `,"Mode":"url","URL":"https://elsewhere.example/"}`, false},
		{`{` + form + `,"MESSAGE":"another"}`, false},
		{`{` + form + `,"requestedſchema":{}}`, false},
		{`{` + form + `,"_Meta":{}}`, false},
		{`{"mode":"url","message":"m","url":"https://id.example/","elicitationId":"1","Url":"https://elsewhere.example/"}`, false},
		{`{` + form + `,"url":"https://elsewhere.example/"}`, true},
		{`{` + form + `,"mode":"form","elicitationId":"1","other":1,"_meta":{"ProgressToken":1,"IO.modelcontextprotocol/x":1}}`, true},
	} {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "up")
		offered, err := call.Offer(t.Context(), json.RawMessage(test.params), nil, func(elicitation.Outcome) {})
		if !test.taken {
			if !errors.Is(err, elicitation.ErrInvalidQuestion) {
				t.Errorf("%s: error is %v", test.params, err)
			}
			call.End()
			r.settled()
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", test.params, err)
		}
		var read struct {
			Mode, Message, URL, ElicitationID string
			Other                             int
			Meta                              map[string]any `json:"_meta"`
		}
		if err := json.Unmarshal(offered.Request().Params, &read); err != nil {
			t.Fatal(err)
		}
		if read.URL != "" || read.ElicitationID != "" || read.Mode == "url" || read.Message != "m" || len(read.Meta) != 1 {
			t.Errorf("%s: the client reads %+v", test.params, read)
		}
		call.End()
	}
}

// What an upstream asks for a client that has left is not put to whoever else is
// on the connection: the call counts until its host has ended it.
func TestOriginOfACallThatIsOver(t *testing.T) {
	for _, test := range []struct {
		name  string
		leave func(cancel func(), s *elicitation.Session)
	}{
		{"request cancelled", func(cancel func(), _ *elicitation.Session) { cancel() }},
		{"session gone", func(_ func(), s *elicitation.Session) { s.Detach() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				s1 := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
				s2 := r.attach(elicitation.SessionInfo{ID: "s2", Principal: bob()})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := r.beginIn(ctx, elicitation.Origin{Session: s1, Related: protocol.IntID(1)}, elicitation.Frames(r.answers(s1, yes)), "up")
				sc := r.answers(s2, yes)
				second := r.begin(elicitation.Origin{Session: s2, Related: protocol.IntID(2)}, elicitation.Frames(sc), "up")
				test.leave(cancel, s1)
				synctest.Wait()
				_, err := r.ElicitFrom(t.Context(), "up", form("for alice"), nil)
				refused(t, err, elicitation.ErrAmbiguousOrigin, -32601, "No client session available")
				_, err = r.ElicitFrom(t.Context(), "up", form("for alice"), &elicitation.ElicitOptions{Related: protocol.IntID(1)})
				refused(t, err, elicitation.ErrNoSession, -32601, "No client session available")
				if n := len(sc.requests()); n != 0 {
					t.Fatalf("bob was asked %d times", n)
				}
				if _, err := r.ElicitFrom(t.Context(), "up", form("for bob"), &elicitation.ElicitOptions{Related: protocol.IntID(2)}); err != nil {
					t.Error(err)
				}
				first.End()
				second.End()
			})
		})
	}
}

// A question that goes out after it has ended is taken back once, whoever
// delivers it.
func TestWithdrawnOnce(t *testing.T) {
	t.Run("by the host", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			sc := &screen{t: t}
			call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "up")
			defer call.End()
			offered, err := call.Offer(t.Context(), form("m"), nil, func(elicitation.Outcome) {})
			if err != nil {
				t.Fatal(err)
			}
			offered.Cancel()
			synctest.Wait()
			if n := len(sc.notifications("notifications/cancelled")); n != 0 {
				t.Errorf("taken back %d times before it went out", n)
			}
			offered.Delivered()
			synctest.Wait()
			if n := len(sc.notifications("notifications/cancelled")); n != 1 {
				t.Errorf("taken back %d times", n)
			}
		})
	})
	// The client's progress says that the question is out before Deliver does.
	t.Run("while it is delivered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			sc := &screen{t: t}
			var call *elicitation.Call
			sc.answer = func(q *protocol.Request) {
				if d, err := r.Progress(context.Background(), s.From(), progress(q.ID, 1)); d != elicitation.Accepted || err != nil {
					t.Errorf("progress is %v, %v", d, err)
				}
				call.End()
			}
			call = r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "up")
			if _, err := call.Elicit(t.Context(), form("m"), nil); !errors.Is(err, elicitation.ErrCancelled) {
				t.Errorf("error is %v", err)
			}
			synctest.Wait()
			if n := len(sc.notifications("notifications/cancelled")); n != 1 {
				t.Errorf("taken back %d times", n)
			}
		})
	})
}

// A client's error is bounded as its answer is.
func TestClientErrorTooLarge(t *testing.T) {
	long := strings.Repeat("x", 2<<20)
	for _, wire := range []*protocol.Error{
		{Code: -32000, Message: long},
		{Code: -32000, Message: "m", Data: json.RawMessage(`"` + long + `"`)},
	} {
		r := newRig(t, elicitation.Options{})
		s, offered, outcome := r.offered()
		r.complete(s.From(), &protocol.Response{ID: offered.Request().ID, Error: wire}, elicitation.Invalid)
		refused(t, outcome.Err, elicitation.ErrInvalidReply, -32603, "The client's answer is not valid")

		asks := elicitation.AskFunc(func(context.Context, elicitation.Asked, func()) (json.RawMessage, error) { return nil, wire })
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Asks(asks), "asks")
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ErrInvalidReply, -32603, "The client's answer is not valid")
		call.End()
		r.settled()
	}
}

// Calls with connections of their own, which have no keys, do not share visits.
func TestVisitsWithoutAKey(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	ids := map[string]bool{}
	for _, id := range []string{"s1", "s2", "s3"} {
		s := r.attach(elicitation.SessionInfo{ID: id, Notify: &screen{t: t}})
		sc := r.answers(s, `{"action":"accept"}`)
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "")
		if _, err := call.Elicit(t.Context(), visit("m", "https://id.example/", "1"), nil); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		ids[clientID(t, sc)] = true
		call.End()
	}
	if len(ids) != 3 {
		t.Errorf("%d ids for 3 visits", len(ids))
	}
	r.visited("", "1", elicitation.Unknown)
}

// A session's stream that takes nothing does not hold up the upstream's.
func TestVisitCompletionStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Notify: &screen{t: t, stuck: true}})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(r.answers(s, `{"action":"accept"}`)), "up")
		if _, err := call.Elicit(t.Context(), visit("m", "https://id.example/", "1"), nil); err != nil {
			t.Fatal(err)
		}
		call.End()
		began := time.Now()
		d, err := r.ElicitationCompleted(context.Background(), "up", "1")
		if d != elicitation.Expired || !errors.Is(err, elicitation.ErrDelivery) || time.Since(began) != elicitation.DefaultDeliveryTimeout {
			t.Errorf("after %v: %v, %v", time.Since(began), d, err)
		}
	})
}

// The owner of a key acts on messages about that key alone.
func TestBusMessageForAnotherKey(t *testing.T) {
	hub := elicitation.NewHub()
	owner, other := hub.Bus(), hub.Bus()
	r := newRig(t, elicitation.Options{Bus: owner})
	s, offered, _ := r.offered()
	_, second, _ := r.rigOffer(s)
	stream := &screen{t: t}
	s2 := r.attach(elicitation.SessionInfo{ID: "s2", Notify: stream})
	call := r.begin(elicitation.Origin{Session: s2}, elicitation.Frames(r.answers(s2, `{"action":"accept"}`)), "up")
	defer call.End()
	if _, err := call.Elicit(t.Context(), visit("m", "https://id.example/", "1"), nil); err != nil {
		t.Fatal(err)
	}
	key := "q." + strings.Trim(offered.Request().ID.String(), `"`)
	from := fmt.Sprintf(`"session":%q,"issuer":%q,"subject":%q`, s.ID(), s.From().Principal.Issuer, s.From().Principal.Subject)
	for _, message := range []string{
		fmt.Sprintf(`{"do":"complete",%s,"frame":{"jsonrpc":"2.0","id":%s,"result":%s}}`, from, second.Request().ID, yes),
		fmt.Sprintf(`{"do":"progress",%s,"frame":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}}`, from, second.Request().ID),
		`{"do":"visited","upstream":"up","visit":"1"}`,
	} {
		answer, err := other.Send(t.Context(), key, []byte(message))
		if err != nil || !strings.Contains(string(answer), fmt.Sprintf(`"disposition":%d`, elicitation.Invalid)) {
			t.Errorf("%s: %s, %v", message, answer, err)
		}
	}
	if n := len(stream.notifications("notifications/elicitation/complete")); n != 0 || r.Pending() != 2 {
		t.Errorf("%d completions, %d pending", n, r.Pending())
	}
}

// rigOffer is one more question for a session.
func (r *rig) rigOffer(s *elicitation.Session) (*elicitation.Call, *elicitation.Offered, *elicitation.Outcome) {
	r.Helper()
	outcome := &elicitation.Outcome{}
	call := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "more")
	r.Cleanup(call.End)
	offered, err := call.Offer(r.Context(), form("m"), nil, func(o elicitation.Outcome) { *outcome = o })
	if err != nil {
		r.Fatal(err)
	}
	return call, offered, outcome
}

// Limits that cannot work are refused at once.
func TestLimitsThatCannotWork(t *testing.T) {
	for name, o := range map[string]elicitation.Options{
		"overflow":         {MaxContentBytes: int(^uint(0) >> 1)},
		"overflow, schema": {MaxSchemaBytes: int(^uint(0) >> 1)},
		"beyond the bus":   {MaxContentBytes: elicitation.MaxBusMessage, Bus: elicitation.NewHub().Bus()},
	} {
		if _, err := elicitation.New(&o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A server sends no requests to a client of revision 2026-07-28, nor to one that
// speaks nobody knows what.
func TestVersionsThatAreNotAsked(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1", Version: protocol.V20260728})
	sc := &screen{t: t}
	call := r.begin(elicitation.Origin{Session: s}, elicitation.Frames(sc), "up")
	defer call.End()
	for _, params := range []json.RawMessage{form("m"), visit("m", "https://id.example/", "1")} {
		_, err := call.Elicit(t.Context(), params, nil)
		refused(t, err, elicitation.ErrNotDeclared, -32601, "Client does not support elicitation")
	}
	if len(sc.frames) != 0 {
		t.Errorf("the client got %d frames", len(sc.frames))
	}
	for _, version := range []protocol.Version{"2027-01-01", "draft", "2025"} {
		if _, err := r.Attach(elicitation.SessionInfo{Version: version}); err == nil {
			t.Errorf("a session of version %q is attached", version)
		}
	}
	r.settled()
}

// A transport that quotes what it could not send quotes nothing into the logs
// that a redactor keeps out of them.
func TestRedactorOfDeliveryErrors(t *testing.T) {
	const canary = "canary-4242-secret"
	for _, lost := range []bool{false, true} {
		audit := &auditor{}
		r := newRig(t, elicitation.Options{Redactor: elicitation.HashMessages, Audit: audit})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		var call *elicitation.Call
		call = r.begin(elicitation.Origin{Session: s}, elicitation.Frames(elicitation.DeliverFunc(func(_ context.Context, m protocol.Message) error {
			err := fmt.Errorf("cannot write %s", m.(*protocol.Request).Params)
			if lost {
				call.Lost(err)
			}
			return err
		})), "up")
		if _, err := call.Elicit(t.Context(), form("Is it "+canary+"?"), nil); !errors.Is(err, elicitation.ErrDelivery) {
			t.Errorf("error is %v", err)
		}
		call.End()
		text := fmt.Sprintf("%+v", audit.events)
		for _, e := range r.logs.All() {
			text += fmt.Sprintln(e.Message, e.ContextMap())
		}
		if strings.Contains(text, canary) {
			t.Errorf("the secret is there: %s", text)
		}
	}
}

// What an upstream asks about a call that was given up and has ended is not put
// to the client of the next call on the connection, even where calls take turns.
func TestQuestionOfAnAbandonedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		turn := func(ctx context.Context, who elicitation.Principal, related protocol.ID) (*screen, func()) {
			release, err := r.Exclusive(t.Context(), "up")
			if err != nil {
				t.Fatal(err)
			}
			s := r.attach(elicitation.SessionInfo{Principal: who})
			sc := r.answers(s, yes)
			call := r.beginIn(ctx, elicitation.Origin{Session: s, Related: related}, elicitation.Frames(sc), "up")
			return sc, func() { call.End(); release() }
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, end := turn(ctx, alice(), protocol.IntID(1))
		cancel()
		end()
		sc, end := turn(t.Context(), bob(), protocol.IntID(2))
		_, err := r.ElicitFrom(t.Context(), "up", form("for alice"), nil)
		refused(t, err, elicitation.ErrAmbiguousOrigin, -32601, "No client session available")
		if n := len(sc.requests()); n != 0 {
			t.Fatalf("bob was asked %d times", n)
		}
		if _, err := r.ElicitFrom(t.Context(), "up", form("for bob"), &elicitation.ElicitOptions{Related: protocol.IntID(2)}); err != nil {
			t.Error(err)
		}
		end()
		time.Sleep(elicitation.DefaultMaxTimeout)
		_, end = turn(t.Context(), bob(), protocol.IntID(3))
		if _, err := r.ElicitFrom(t.Context(), "up", form("for bob"), nil); err != nil {
			t.Error(err)
		}
		end()
		r.settled()
	})
}

// Connections on which calls were given up are remembered in bounded memory, the
// latest of them.
func TestAbandonedCallsAreBounded(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 5000 {
		r.beginIn(ctx, elicitation.Origin{Session: s}, elicitation.Via{}, elicitation.UpstreamKey(fmt.Sprint("up ", i))).End()
	}
	for _, test := range []struct {
		up   elicitation.UpstreamKey
		want bool
	}{{"up 0", false}, {"up 4999", true}} {
		call := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, test.up)
		_, err := r.OfferFrom(t.Context(), test.up, form("m"), nil, func(elicitation.Outcome) {})
		if errors.Is(err, elicitation.ErrAmbiguousOrigin) != test.want {
			t.Errorf("%s: error is %v", test.up, err)
		}
		call.End()
	}
}
