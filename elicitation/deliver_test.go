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

// A question that ends during its delivery is withdrawn once; progress proves the delivery.
func TestWithdrawnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, elicitation.Options{}, "")
		s.screen.answer = func(q *protocol.Request) {
			d := s.HandleProgress(s.session.Sender(), progress(q.ID, 1))
			wantEqual(t, "progress", d, elicitation.Accepted)
			s.call.End()
		}
		_, err := s.ask(form("m"))
		wantIs(t, "ask", err, elicitation.ReasonCancelled)
		synctest.Wait()
		wantEqual(t, "cancellations", len(s.screen.notifications("notifications/cancelled")), 1)
	})
}

// If a transport delivers a question that has ended, the question is withdrawn.
func TestDeliveryAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := &screen{t: t}
		s := newSceneVia(t, elicitation.Options{}, sends(func(ctx context.Context,
			m protocol.Message) error {
			if _, ok := m.(*protocol.Request); ok {
				time.Sleep(5 * time.Second) // ignores ctx
			}
			return sc.Deliver(ctx, m)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.call.Elicit(ctx, form("m"))
		if !errors.Is(err, elicitation.ReasonCancelled) || time.Since(began) != 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		time.Sleep(10 * time.Second)
		if len(sc.requests()) != 1 || len(sc.notifications("notifications/cancelled")) != 1 {
			t.Errorf("the client got %d frames, want the question and its withdrawal",
				len(sc.frames))
		}
		s.wantEvents("created cancelled")
		s.settled()
	})
}
