package elicitation_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

func TestNoQuestionsAfterTheEndOfACall(t *testing.T) {
	for name, end := range map[string]func(s *scene, cancel, leave func()){
		"ended":     func(s *scene, _, _ func()) { s.call.End(); s.call.End() },
		"cancelled": func(_ *scene, cancel, _ func()) { cancel(); synctest.Wait() },
		"left":      func(_ *scene, _, leave func()) { leave() }, // the upstream's request ends
		"detached":  func(s *scene, _, _ func()) { s.session.Detach(); s.session.Detach() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, elicitation.Options{}, "")
				s.call.End()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s.call = s.beginIn(ctx, elicitation.Origin{Session: s.session},
					elicitation.ViaFrames(s.screen), "up")
				upstream, leave := context.WithCancel(t.Context())
				defer leave()
				end(s, cancel, leave)
				_, err := s.call.Elicit(upstream, form("m"))
				refused(t, err, elicitation.ReasonNoSession, -32601,
					"No client session available")
				s.settled()
			})
		})
	}
	r := newRig(t, elicitation.Options{})
	if _, err := r.Begin(t.Context(), elicitation.Origin{}, byHand(), "up"); err == nil {
		t.Error("Begin without a session")
	}
}

// If a client's error also ends its call, the question always ends with that error.
func TestClientErrorThatEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		ctx, cancel := context.WithCancelCause(t.Context())
		call := r.beginIn(ctx, elicitation.Origin{Session: s},
			elicitation.ViaFrames(&screen{t: t}), "up")
		said := protocol.Errorf(-32000, "no eyes")
		time.AfterFunc(time.Second, func() {
			cancel(&waiting.ClientError{Said: said, Err: context.Canceled})
		})
		_, err := call.Elicit(t.Context(), form("m"))
		refused(t, err, elicitation.ReasonClientError, -32000, "no eyes")
		r.wantEvents("created delivered error")
	})
}

// The second sweep reports and ends calls that their host forgot.
func TestSweepEndsCallsThatWereNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
		other := r.attach(elicitation.SessionInfo{ID: "s2", Principal: bob()})
		ctx, cancel := context.WithCancel(t.Context())
		forgotten := r.beginIn(ctx, elicitation.Origin{Session: s, CallID: "forgotten"},
			byHand(), "aborted")
		orphan := r.begin(elicitation.Origin{Session: other, CallID: "orphan"}, byHand(),
			"up")
		long := r.begin(elicitation.Origin{Session: s, CallID: "long"},
			elicitation.ViaFrames(r.answers(s, yes)), "up")
		cancel()
		other.Detach()
		time.Sleep(5*time.Minute + time.Second)
		r.wantEvents("")
		_, err := r.ElicitFrom(t.Context(), "up", form("m"))
		refused(t, err, elicitation.ReasonAmbiguous, -32601, "No client session available")
		time.Sleep(5 * time.Minute)
		r.wantEvents("rejected leaked leaked")
		for _, e := range r.logs.FilterMessage("elicitation.leaked").All() {
			if id := e.ContextMap()["call_id"]; id != "forgotten" && id != "orphan" {
				t.Errorf("%v is reported", id)
			}
		}
		if _, err := r.ElicitFrom(t.Context(), "up", form("m")); err != nil {
			t.Errorf("the call that goes on cannot ask: %v", err)
		}
		next := r.begin(elicitation.Origin{Session: s}, byHand(), "aborted")
		_, err = r.ElicitFrom(t.Context(), "aborted", form("m"))
		refused(t, err, elicitation.ReasonAmbiguous, -32601, "No client session available")
		next.End()
		const all = "rejected leaked leaked created delivered completed rejected"
		for _, c := range []*elicitation.Call{forgotten, orphan, long} {
			c.End()
		}
		time.Sleep(time.Hour)
		r.wantEvents(all)
		again := r.begin(elicitation.Origin{Session: s}, byHand(), "up")
		time.Sleep(time.Hour)
		again.End()
		r.wantEvents(all)
	})
}
