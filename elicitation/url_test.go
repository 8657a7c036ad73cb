package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

const agrees = `{"action":"accept"}`

func site(id string) []byte { return urlQuestion("Sign in", "https://id.example/", id) }

// visit makes the upstream ask for a visit in a new call, and returns the visit's id at the client.
func (r *rig) visit(o elicitation.Origin, up elicitation.UpstreamKey, id string) string {
	r.Helper()
	return r.visitIn(r.Context(), o, up, id)
}

func (r *rig) visitIn(ctx context.Context, o elicitation.Origin, up elicitation.UpstreamKey,
	id string) string {
	r.Helper()
	sc := r.answers(o.Session, agrees)
	call := r.beginIn(ctx, o, elicitation.ViaFrames(sc), up)
	defer call.End()
	if _, err := call.Elicit(r.Context(), site(id)); err != nil {
		r.Error(err)
		return ""
	}
	ask, err := protocol.DecodeInputRequest(protocol.MethodElicit, sc.requests()[0].Params)
	noError(r, err)
	return ask.(*protocol.ElicitURL).ElicitationID
}

// The method notified attaches a client with a stream for notifications without a request.
func (r *rig) notified(id string) (elicitation.Origin, *screen) {
	r.Helper()
	sc := &screen{t: r.TB}
	return elicitation.Origin{
		Session: r.attach(elicitation.SessionInfo{ID: id, Notify: sc})}, sc
}

func (r *rig) wantCompletion(up elicitation.UpstreamKey, id string, want elicitation.Disposition) {
	r.Helper()
	if d, err := r.HandleURLCompletion(r.Context(), up, id); d != want || err != nil {
		r.Errorf("completion of %s %q is %v, %v, want %v", up, id, d, err, want)
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
	s := newScene(t, elicitation.Options{URLPolicy: func(_ context.Context,
		v elicitation.URLRequest) error {
		if v.Upstream != "up" || v.Call == nil || v.URL != "https://id.example/x?code=canary" {
			t.Errorf("the policy was asked about %+v", v)
		}
		return errors.New("not listed: " + v.URL)
	}}, "")
	_, err := s.ask(urlQuestion("m", "https://id.example/x?code=canary", "e"))
	refused(t, err, elicitation.ReasonInvalidQuestion, -32602,
		"Invalid elicitation request: the URL is not allowed")
	if f := s.logs.All()[0].ContextMap(); f["error"] != "not listed: https://id.example/x?…" {
		t.Errorf("the log says %v", f["error"])
	}
}

// A host's policy can allow another scheme, but no unsafe URL.
func TestURLPolicyCannotLiftTheRule(t *testing.T) {
	s := newScene(t, elicitation.Options{URLPolicy: func(context.Context,
		elicitation.URLRequest) error {
		return nil
	}}, agrees)
	for i, url := range []string{"javascript:alert(1)", "/relative", "https://user@id.example/",
		"https://id.example/" + strings.Repeat("a", 8<<10)} {
		_, err := s.ask(urlQuestion("m", url, fmt.Sprint("e", i)))
		refused(t, err, elicitation.ReasonInvalidQuestion, -32602,
			"Invalid elicitation request: the URL is not allowed")
	}
	wantEqual(t, "frames sent", len(s.screen.frames), 0)
	if _, err := s.ask(urlQuestion("m", "http://intranet.example/", "e")); err != nil {
		t.Error(err)
	}
}

// A detached session leaves no URL elicitations behind.
func TestDetachForgetsURLElicitations(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	o, _ := r.notified("s1")
	for _, id := range []string{"1", "2", "3"} {
		r.visit(o, "up", id)
	}
	o.Session.Detach()
	for _, id := range []string{"1", "2", "3"} {
		r.wantCompletion("up", id, elicitation.Unknown)
	}
}

// Calls on their own connections, which have no keys, do not share visits.
func TestURLElicitationsWithoutUpstreamKey(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	ids := map[string]bool{}
	for _, name := range []string{"s1", "s2", "s3"} {
		o, _ := r.notified(name)
		ids[r.visit(o, "", "1")] = true
	}
	wantEqual(t, "ids for 3 visits", len(ids), 3)
	r.wantCompletion("", "1", elicitation.Unknown)
}

// A blocked stream of the session does not block the upstream's stream.
func TestStuckURLCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		o, stream := r.notified("s1")
		stream.stuck = true
		r.visit(o, "up", "1")
		began := time.Now()
		d, err := r.HandleURLCompletion(context.Background(), "up", "1")
		if d != elicitation.Expired || !errors.Is(err, elicitation.ReasonDelivery) ||
			time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %v, %v", time.Since(began), d, err)
		}
	})
}

// A completion reaches only the session that got the URL, once, with its own id.
func TestElicitationCompleted(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	var streams [2]*screen
	var known [2]string
	for i, up := range []elicitation.UpstreamKey{"a", "b"} { // both use the same ids
		o, stream := r.notified(string(up))
		streams[i], known[i] = stream, r.visit(o, up, "1")
	}
	if known[0] == known[1] || known[0] == "1" || known[1] == "1" {
		t.Errorf("elicitationIds are %q, want two new ones", known)
	}
	r.wantCompletion("a", "2", elicitation.Unknown)
	r.wantCompletion("c", "1", elicitation.Unknown)
	r.wantCompletion("a", known[0], elicitation.Unknown)
	r.wantCompletion("a", "1", elicitation.Accepted)
	r.wantCompletion("a", "1", elicitation.Unknown)
	wantEqual(t, "frames to the other session", len(streams[1].frames), 0)
	told := streams[0].notifications("notifications/elicitation/complete")
	var p protocol.ElicitationCompleted
	if len(told) != 1 || jsonx.Decode(told[0].Params, &p) != nil || p.ElicitationID != known[0] {
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
		{"session gone", agrees, (*elicitation.Session).Detach, elicitation.Unknown},
		{"too late", agrees,
			func(*elicitation.Session) { time.Sleep(2 * time.Hour) }, elicitation.Expired},
		{"in time", agrees,
			func(*elicitation.Session) { time.Sleep(30 * time.Minute) }, elicitation.Accepted},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, elicitation.Options{})
				o, _ := r.notified("s1")
				call := r.begin(o, elicitation.ViaFrames(r.answers(o.Session, test.reply)), "up")
				if _, err := call.Elicit(t.Context(), site("1")); err != nil {
					t.Fatal(err)
				}
				call.End()
				test.then(o.Session)
				r.wantCompletion("up", "1", test.want)
			})
		})
	}
}

// Without a session stream the call's is used, while it lasts.
func TestURLCompletionWithoutSessionStream(t *testing.T) {
	r := newScene(t, elicitation.Options{}, agrees)
	for _, id := range []string{"1", "2"} {
		if _, err := r.ask(site(id)); err != nil {
			t.Fatal(err)
		}
	}
	r.wantCompletion("up", "1", elicitation.Accepted)
	wantEqual(t, "completions on the call's stream",
		len(r.screen.notifications("notifications/elicitation/complete")), 1)
	r.call.End()
	if d, err := r.HandleURLCompletion(t.Context(), "up", "2"); d != elicitation.Expired ||
		!errors.Is(err, elicitation.ReasonDelivery) {
		t.Errorf("with no stream at all: %v, %v", d, err)
	}
}

// If an elicitationId is used for two users, both are asked and neither gets a completion.
func TestElicitationIDsOfTwoSessions(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s1, _ := r.notified("s1")
	s2, _ := r.notified("s2")
	first := r.visit(s1, "up", "1")
	wantEqual(t, "id for the client when asked again", r.visit(s1, "up", "1"), first)
	if second := r.visit(s2, "up", "1"); second == first {
		t.Errorf("another client knows it as %q, too", second)
	}
	r.wantCompletion("up", "1", elicitation.Unknown)
	r.visit(s1, "up", "1")
	r.wantCompletion("up", "1", elicitation.Unknown) // still shared
	for i := range 64 {
		r.visit(s1, "up", fmt.Sprint("more ", i))
	}
	r.visit(s1, "up", "another")
	r.wantCompletion("up", "more 0", elicitation.Unknown) // evicted
	r.wantCompletion("up", "more 1", elicitation.Accepted)
	r.settled()
}

// Content in an answer about a URL is not passed on.
func TestURLAnswersHaveNoContent(t *testing.T) {
	s := newScene(t, elicitation.Options{}, `{"action":"accept","content":{"pin":1}}`)
	got, err := s.ask(site("1"))
	if err != nil || got.Action != protocol.ActionAccept || got.Content != nil {
		t.Errorf("result is %+v, %v", got, err)
	}
}

// Two sessions are sent to one elicitationId concurrently.
func TestElicitationIDTakenWhileAQuestionBegins(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s1, _ := r.notified("s1")
	s2, _ := r.notified("s2")
	r.visitIn(roundtrip.WatchWaiting(t.Context(), func(waiting bool) {
		if waiting {
			r.visit(s2, "up", "1")
		}
	}), s1, "up", "1")
	r.wantCompletion("up", "1", elicitation.Unknown)
	r.settled()
}
