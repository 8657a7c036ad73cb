package elicitation_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// A question that goes out after it has ended is taken back once.
func TestWithdrawnOnce(t *testing.T) {
	// The client's progress means that the question is out before Deliver does.
	t.Run("while it is delivered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, elicitation.Options{})
			s := r.attach(elicitation.SessionInfo{ID: "s1"})
			sc := &screen{t: t}
			var call *elicitation.Call
			sc.answer = func(q *protocol.Request) {
				if d := r.HandleProgress(s.Sender(),
					progress(q.ID, 1)); d != elicitation.Accepted {
					t.Errorf("progress is %v", d)
				}
				call.End()
			}
			call = r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(sc), "up")
			if _, err := call.Elicit(t.Context(), form("m"), nil); !errors.Is(err,
				elicitation.ReasonCancelled) {
				t.Errorf("error is %v", err)
			}
			synctest.Wait()
			if n := len(sc.notifications("notifications/cancelled")); n != 1 {
				t.Errorf("taken back %d times", n)
			}
		})
	})
}

// A stream that takes nothing is found out long before the timeout, and nothing
// claims a delivery.
func TestStuckDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		call := r.begin(elicitation.Origin{Session: s},
			elicitation.ViaFrames(&screen{t: t, stuck: true}), "up")
		defer call.End()
		began := time.Now()
		_, err := call.Elicit(t.Context(), form("m"), nil)
		refused(t, err, elicitation.ReasonDelivery, -32603, "Elicitation could not be delivered")
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait()
		r.wantEvents("created error")
		r.settled()
	})
}

// A transport that delivers after all, when nobody waits any more, takes the
// question back.
func TestDeliveryAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		sc := &screen{t: t}
		slow := elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
			if _, ok := m.(*protocol.Request); ok {
				time.Sleep(5 * time.Second) // deaf to ctx
			}
			return sc.Deliver(ctx, m)
		})
		call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(slow), "up")
		defer call.End()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err := call.Elicit(ctx, form("m"), nil)
		if !errors.Is(err, elicitation.ReasonCancelled) || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(10 * time.Second)
		if len(sc.requests()) != 1 || len(sc.notifications("notifications/cancelled")) != 1 {
			t.Errorf("the client got %d frames, want the question and its withdrawal",
				len(sc.frames))
		}
		r.wantEvents("created cancelled")
		r.settled()
	})
}

// A reply that overtakes the transport's word implies delivery, in that order.
func TestReplyOvertakesDelivery(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	_, offered, _ := r.offered()
	r.complete(offered.Call().Origin().Session.Sender(), result(offered.Request().ID, yes),
		elicitation.Accepted)
	offered.ConfirmDelivery()
	r.wantEvents("created delivered completed")
}
