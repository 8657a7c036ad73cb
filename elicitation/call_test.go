package elicitation_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// After its end a call takes no questions, whatever ended it.
func TestNoQuestionsAfterTheEndOfACall(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{ID: "s1"})
	ask := func(c *elicitation.Call) error {
		_, err := c.Elicit(t.Context(), form("m"), nil)
		return err
	}
	ended := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(&screen{t: t}), "up")
	ended.End()
	ended.End()
	refused(t, ask(ended), elicitation.ReasonNoSession, -32601, "No client session available")

	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		ctx, cancel := context.WithCancel(t.Context())
		cancelled := r.beginIn(ctx, elicitation.Origin{Session: s},
			elicitation.ViaFrames(&screen{t: t}), "up")
		defer cancelled.End()
		cancel()
		synctest.Wait()
		refused(t, ask(cancelled), elicitation.ReasonNoSession, -32601,
			"No client session available")
	})

	open := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(&screen{t: t}), "up")
	defer open.End()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := open.Elicit(gone, form("m"), nil)
	refused(t, err, elicitation.ReasonNoSession, -32601, "No client session available")
	s.Detach()
	s.Detach()
	refused(t, ask(open), elicitation.ReasonNoSession, -32601, "No client session available")
	if _, err := r.Begin(t.Context(), elicitation.Origin{Session: s}, byHand(),
		"up"); !errors.Is(err, elicitation.ReasonNoSession) {
		t.Errorf("Begin: %v", err)
	}
	if _, err := r.Begin(t.Context(), elicitation.Origin{}, byHand(), "up"); err == nil {
		t.Error("Begin without a session")
	}
	r.settled()
}

// A client's error that ends its call, too, is what the question ends with, whichever of the two the
// router sees first.
func TestClientErrorThatEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		ctx, cancel := context.WithCancelCause(t.Context())
		call := r.beginIn(ctx, elicitation.Origin{Session: s},
			elicitation.ViaFrames(&screen{t: t}), "up")
		defer call.End()
		said := protocol.Errorf(-32000, "no eyes")
		time.AfterFunc(time.Second, func() {
			cancel(&waiting.ClientError{Said: said, Err: context.Canceled})
		})
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ReasonClientError, -32000, "no eyes")
		r.wantEvents("created delivered error")
	})
}

// The sweep reports and ends what the host forgot, at the second look; then its connection is
// that of the others alone.
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
		_, err := r.ElicitFrom(t.Context(), "up", form("m"), nil)
		refused(t, err, elicitation.ReasonAmbiguous, -32601, "No client session available")
		time.Sleep(5 * time.Minute)
		r.wantEvents("rejected leaked leaked")
		for _, e := range r.logs.FilterMessage("elicitation.leaked").All() {
			if id := e.ContextMap()["call_id"]; id != "forgotten" && id != "orphan" {
				t.Errorf("%v is reported", id)
			}
		}
		if _, err := r.ElicitFrom(t.Context(), "up", form("m"), nil); err != nil {
			t.Errorf("the call that goes on cannot ask: %v", err)
		}
		next := r.begin(elicitation.Origin{Session: s}, byHand(), "aborted")
		_, err = r.ElicitFrom(t.Context(), "aborted", form("m"), nil)
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

// A refusal of Begin is one for the wire, and is logged and counted.
func TestRefusalsOfBegin(t *testing.T) {
	for _, test := range []struct {
		name, message, data string
		close               func(r *rig, s *elicitation.Session)
		reason              elicitation.Reason
		code                int64
	}{
		{"the session is gone", "No client session available", "",
			func(_ *rig, s *elicitation.Session) { s.Detach() },
			elicitation.ReasonNoSession, -32601},
		{"the router shuts down", "The gateway is shutting down", `{"retryAfterMs":5000}`,
			func(r *rig, _ *elicitation.Session) { _ = r.Shutdown(r.Context()) },
			elicitation.ReasonShutdown, protocol.CodeBusy},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			test.close(r, s)
			origin := elicitation.Origin{Session: s, CallID: "c1"}
			_, err := r.Begin(t.Context(), origin, byHand(), "up")
			refused(t, err, test.reason, test.code, test.message)
			wire, _ := protocol.AsError(err)
			if string(wire.Data) != test.data {
				t.Errorf("data is %s, want %s", wire.Data, test.data)
			}
			r.wantEvents("rejected")
			f := r.logs.All()[0].ContextMap()
			if f["reason"] != string(test.reason) || f["downstream_session"] != "s1" ||
				f["upstream_session"] != "up" || f["call_id"] != "c1" || f["code"] != test.code {
				t.Errorf("the log says %v", f)
			}
			if n := r.value("elicitation_rejected_total", "reason", string(test.reason)); n != 1 {
				t.Errorf("%v refusals are counted", n)
			}
			r.settled()
		})
	}
}

// A session that is deleted in the middle of a question frees it at once, and what it held.
func TestSessionThatIsDeletedInMidQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		sc := &screen{t: t}
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
		defer call.End()
		began := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			s.Detach()
		}()
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ReasonNoSession, -32601, "No client session available")
		if waited := time.Since(began); waited != 3*time.Second {
			t.Errorf("the upstream has waited for %v", waited)
		}
		r.wantEvents("created delivered cancelled")
		if n := r.value("elicitation_cancelled_total", "by", "session"); n != 1 {
			t.Errorf("%v questions are counted", n)
		}
		r.settled()
	})
}
