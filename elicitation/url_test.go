package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A URL keeps its elicitationId to the upstream's own connection.
func TestElicitationIDIsReplaced(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	sc := r.answers(s, `{"action":"accept"}`)
	var ids []string
	for _, up := range []elicitation.UpstreamKey{"a", "b"} {
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), up)
		if _, err := call.Elicit(t.Context(),
			urlQuestion("Sign in", "https://id.example/start", "1"), nil); err != nil {
			t.Fatal(err)
		}
		call.End()
	}
	for _, q := range sc.requests() {
		ask, err := protocol.DecodeInputRequest(q.Method, q.Params)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ask.(*protocol.ElicitURL).ElicitationID)
	}
	if len(ids) != 2 || ids[0] == ids[1] || slices.Contains(ids, "1") {
		t.Errorf("elicitationIds are %q, want two new ones", ids)
	}
}

func TestURLPolicy(t *testing.T) {
	for _, url := range []string{"https://id.example/a?b=c#d", "http://localhost:8080/",
		"http://127.0.0.1/", "http://[::1]:80/x"} {
		if err := elicitation.DefaultURLPolicy(t.Context(),
			elicitation.URLRequest{URL: url}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	r := newRig(t, elicitation.Options{URLPolicy: func(_ context.Context,
		v elicitation.URLRequest) error {
		if v.Upstream != "up" || v.Call == nil || v.URL != "https://id.example/x?code=canary" {
			t.Errorf("the policy was asked about %+v", v)
		}
		return errors.New("not listed: " + v.URL)
	}})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(&screen{t: t}), "up")
	defer call.End()
	_, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/x?code=canary", "e"),
		nil)
	refused(t, err, elicitation.ReasonInvalidQuestion, -32602,
		"Invalid elicitation request: the URL is not allowed")
	if f := r.logs.All()[0].ContextMap(); f["error"] != "not listed: https://id.example/x?…" {
		t.Errorf("the log says %v", f["error"])
	}
}

// What no person should be sent to, no policy of the host's can allow, but it can
// allow another scheme.
func TestURLPolicyCannotLiftTheRule(t *testing.T) {
	r := newRig(t, elicitation.Options{URLPolicy: func(context.Context,
		elicitation.URLRequest) error {
		return nil
	}})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	sc := r.answers(s, `{"action":"accept"}`)
	call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
	defer call.End()
	for i, url := range []string{"javascript:alert(1)", "/relative", "https://user@id.example/",
		"https://id.example/" + strings.Repeat("a", 8<<10)} {
		_, err := call.Elicit(t.Context(), urlQuestion("m", url, fmt.Sprint("e", i)), nil)
		refused(t, err, elicitation.ReasonInvalidQuestion, -32602,
			"Invalid elicitation request: the URL is not allowed")
	}
	if len(sc.frames) != 0 {
		t.Error("something was sent")
	}
	if _, err := call.Elicit(t.Context(), urlQuestion("m", "http://intranet.example/", "e"),
		nil); err != nil {
		t.Error(err)
	}
}

// A session that was sent to several URLs leaves none behind.
func TestDetachForgetsURLElicitations(t *testing.T) {
	const n = 3
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1", Notify: &screen{t: t}})
	call := r.begin(elicitation.Origin{Session: s},
		elicitation.ViaFrames(r.answers(s, `{"action":"accept"}`)), "up")
	for i := range n {
		if _, err := call.Elicit(t.Context(),
			urlQuestion("m", "https://id.example/", fmt.Sprint(i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	s.Detach()
	for i := range n {
		r.wantCompletion("up", fmt.Sprint(i), elicitation.Unknown)
	}
	call.End()
}

// Calls with connections of their own, which have no keys, do not share visits.
func TestURLElicitationsWithoutUpstreamKey(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	ids := map[string]bool{}
	for _, id := range []string{"s1", "s2", "s3"} {
		s := r.attach(elicitation.SessionInfo{ID: id, Notify: &screen{t: t}})
		sc := r.answers(s, `{"action":"accept"}`)
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "")
		if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", "1"),
			nil); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		ids[clientID(t, sc)] = true
		call.End()
	}
	if len(ids) != 3 {
		t.Errorf("%d ids for 3 visits", len(ids))
	}
	r.wantCompletion("", "1", elicitation.Unknown)
}

// A session's stream that takes nothing does not hold up the upstream's.
func TestStuckURLCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Notify: &screen{t: t, stuck: true}})
		call := r.begin(elicitation.Origin{Session: s},
			elicitation.ViaFrames(r.answers(s, `{"action":"accept"}`)), "up")
		if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", "1"),
			nil); err != nil {
			t.Fatal(err)
		}
		call.End()
		began := time.Now()
		d, err := r.HandleURLCompletion(context.Background(), "up", "1")
		if d != elicitation.Expired || !errors.Is(err, elicitation.ReasonDelivery) ||
			time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v, %v", time.Since(began), d, err)
		}
	})
}

// wantCompletion wants a completion to have the given end.
func (r *rig) wantCompletion(up elicitation.UpstreamKey, id string, want elicitation.Disposition) {
	r.Helper()
	if d, err := r.HandleURLCompletion(r.Context(), up, id); d != want || err != nil {
		r.Errorf("completion of %s %q is %v, %v, want %v", up, id, d, err, want)
	}
}

// clientID is the elicitationId of the only URL question on a screen.
func clientID(t testing.TB, sc *screen) string {
	t.Helper()
	q := sc.requests()
	ask, err := protocol.DecodeInputRequest(protocol.MethodElicit, q[len(q)-1].Params)
	if err != nil {
		t.Fatal(err)
	}
	return ask.(*protocol.ElicitURL).ElicitationID
}

// The completion of a visit reaches the session that got the URL, with the id
// that it knows, once, and nobody else.
func TestElicitationCompleted(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	streams := map[string]*screen{"s1": {t: t}, "s2": {t: t}}
	screens := map[string]*screen{}
	for _, id := range []string{"s1", "s2"} {
		s := r.attach(elicitation.SessionInfo{ID: id, Notify: streams[id]})
		screens[id] = r.answers(s, `{"action":"accept"}`)
		// Both upstreams number alike.
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(screens[id]),
			elicitation.UpstreamKey("up-"+id))
		if _, err := call.Elicit(t.Context(), urlQuestion("Sign in", "https://id.example/", "1"),
			nil); err != nil {
			t.Fatal(err)
		}
		call.End()
	}
	r.wantCompletion("up-s1", "2", elicitation.Unknown)
	r.wantCompletion("up-s3", "1", elicitation.Unknown)
	r.wantCompletion("up-s1", clientID(t, screens["s1"]), elicitation.Unknown)
	r.wantCompletion("up-s1", "1", elicitation.Accepted)
	r.wantCompletion("up-s1", "1", elicitation.Unknown)
	if n := len(streams["s2"].frames); n != 0 {
		t.Errorf("the other session got %d frames", n)
	}
	told := streams["s1"].notifications("notifications/elicitation/complete")
	var p protocol.ElicitationCompleted
	if len(told) != 1 || jsonx.Decode(told[0].Params, &p) != nil ||
		p.ElicitationID != clientID(t, screens["s1"]) {
		t.Errorf("the session got %v", told)
	}
}

func TestURLElicitationsThatAreOver(t *testing.T) {
	for _, test := range []struct {
		name, reply string
		then        func(s *elicitation.Session)
		want        elicitation.Disposition
	}{
		{"declined", `{"action":"decline"}`, func(*elicitation.Session) {}, elicitation.Unknown},
		{"cancelled", `{"action":"cancel"}`, func(*elicitation.Session) {}, elicitation.Unknown},
		{"session gone", `{"action":"accept"}`, (*elicitation.Session).Detach, elicitation.Unknown},
		{"too late", `{"action":"accept"}`,
			func(*elicitation.Session) { time.Sleep(2 * time.Hour) }, elicitation.Expired},
		{"in time", `{"action":"accept"}`,
			func(*elicitation.Session) { time.Sleep(30 * time.Minute) }, elicitation.Accepted},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				s := r.attach(elicitation.SessionInfo{ID: "s1", Notify: &screen{t: t}})
				call := r.begin(elicitation.Origin{Session: s},
					elicitation.ViaFrames(r.answers(s, test.reply)), "up")
				if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", "1"),
					nil); err != nil {
					t.Fatal(err)
				}
				call.End()
				test.then(s)
				r.wantCompletion("up", "1", test.want)
			})
		})
	}
}

// Without a stream of the session's the call's serves, while it lasts.
func TestURLCompletionWithoutSessionStream(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	sc := r.answers(s, `{"action":"accept"}`)
	call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
	for _, id := range []string{"1", "2"} {
		if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", id),
			nil); err != nil {
			t.Fatal(err)
		}
	}
	r.wantCompletion("up", "1", elicitation.Accepted)
	if n := len(sc.notifications("notifications/elicitation/complete")); n != 1 {
		t.Errorf("the call's stream got %d completions", n)
	}
	call.End()
	if d, err := r.HandleURLCompletion(t.Context(), "up", "2"); d != elicitation.Expired ||
		!errors.Is(err, elicitation.ReasonDelivery) {
		t.Errorf("with no stream at all: %v, %v", d, err)
	}
}

// An upstream that uses one elicitationId for two people asks both, and neither hears of a
// completion that may be the other's. Nor can it fill the memory.
func TestElicitationIDsOfTwoSessions(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s1, s2 := r.attach(elicitation.SessionInfo{ID: "s1", Notify: &screen{t: t}}),
		r.attach(elicitation.SessionInfo{ID: "s2"})
	ask := func(s *elicitation.Session, id string) (string, error) {
		sc := r.answers(s, `{"action":"accept"}`)
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
		defer call.End()
		if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", id),
			nil); err != nil {
			return "", err
		}
		return clientID(t, sc), nil
	}
	first, err := ask(s1, "1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ask(s1, "1"); again != first || err != nil {
		t.Errorf("asked again, the client knows it as %q, %v, want %q", again, err, first)
	}
	if second, err := ask(s2, "1"); second == first || err != nil {
		t.Errorf("another client knows it as %q, %v, the first as %q", second, err, first)
	}
	r.wantCompletion("up", "1", elicitation.Unknown)
	if _, err := ask(s1, "1"); err != nil {
		t.Error(err)
	}
	r.wantCompletion("up", "1", elicitation.Unknown) // still that of two
	for i := range 64 {
		if _, err := ask(s1, fmt.Sprint("more ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask(s1, "another"); err != nil {
		t.Fatal(err)
	}
	r.wantCompletion("up", "more 0", elicitation.Unknown) // forgotten to make room
	r.wantCompletion("up", "more 1", elicitation.Accepted)
	r.settled()
}

// What an answer about a URL carries besides is not passed on.
func TestURLAnswersHaveNoContent(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(r.answers(s, `{"action":"accept","content":{"pin":1}}`)), "up")
	defer call.End()
	got, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", "1"), nil)
	if err != nil || got.Action != protocol.ActionAccept || got.Content != nil {
		t.Errorf("result is %+v, %v", got, err)
	}
}

// Two sessions that are sent to one elicitationId at the same moment: both are.
func TestElicitationIDTakenWhileAQuestionBegins(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s1, s2 := r.attach(elicitation.SessionInfo{ID: "s1", Notify: &screen{t: t}}),
		r.attach(elicitation.SessionInfo{ID: "s2", Notify: &screen{t: t}})
	ask := func(s *elicitation.Session, pause func() func()) {
		call := r.begin(elicitation.Origin{Session: s, PauseTimeout: pause},
			elicitation.ViaFrames(r.answers(s, `{"action":"accept"}`)), "up")
		defer call.End()
		if _, err := call.Elicit(t.Context(), urlQuestion("m", "https://id.example/", "1"),
			nil); err != nil {
			t.Error(err)
		}
	}
	ask(s1, func() func() {
		ask(s2, nil)
		return func() {}
	})
	r.wantCompletion("up", "1", elicitation.Unknown)
	r.settled()
}
