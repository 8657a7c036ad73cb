package elicitation_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
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
		refused(t, ask(cancelled), elicitation.ReasonNoSession, -32601, "No client session available")
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
	if _, err := r.Begin(t.Context(), elicitation.Origin{Session: s}, elicitation.Via{},
		"up"); !errors.Is(err, elicitation.ReasonNoSession) {
		t.Errorf("Begin: %v", err)
	}
	if _, err := r.Begin(t.Context(), elicitation.Origin{}, elicitation.Via{}, "up"); err == nil {
		t.Error("Begin without a session")
	}
	r.settled()
}

// The sweep reports what the host forgot, at the second look, and ends nothing.
func TestSweepReportsCallsThatWereNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		other := r.attach(elicitation.SessionInfo{ID: "s2"})
		ctx, cancel := context.WithCancel(t.Context())
		forgotten := r.beginIn(ctx, elicitation.Origin{Session: s, CallID: "forgotten"},
			elicitation.Via{}, "up")
		orphan := r.begin(elicitation.Origin{Session: other, CallID: "orphan"}, elicitation.Via{},
			"up")
		long := r.begin(elicitation.Origin{Session: s, CallID: "long"}, elicitation.Via{}, "up")
		cancel()
		other.Detach()
		time.Sleep(5*time.Minute + time.Second)
		r.wantEvents("")
		time.Sleep(5 * time.Minute)
		r.wantEvents("leaked leaked")
		for _, e := range r.logs.All() {
			if id := e.ContextMap()["call_id"]; id != "forgotten" && id != "orphan" {
				t.Errorf("%v is reported", id)
			}
		}
		for _, c := range []*elicitation.Call{forgotten, orphan, long} {
			c.End()
		}
		time.Sleep(time.Hour)
		r.wantEvents("leaked leaked")
		again := r.begin(elicitation.Origin{Session: s}, elicitation.Via{}, "up")
		time.Sleep(time.Hour)
		again.End()
		r.wantEvents("leaked leaked")
	})
}

// A stream that dies while a person thinks is the host's to report.
func TestLostStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(&screen{t: t}), "up")
		defer call.End()
		go func() {
			time.Sleep(time.Second)
			call.FailPending(errors.New("connection reset"))
		}()
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ReasonDelivery, -32603, "The client's stream was lost")
		r.wantEvents("created delivered error")
		r.settled()
	})
}
