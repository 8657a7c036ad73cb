package elicitation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

// The function thinking returns the Via of a client whose user answers when the test says so.
func thinking(asked chan<- struct{}, answer <-chan struct{}) elicitation.Via {
	return asker(func(ctx context.Context, _ elicitation.Question, delivered func()) (string,
		error) {
		delivered()
		asked <- struct{}{}
		select {
		case <-answer:
			return yes, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
}

func beginCall(t *testing.T, ctx context.Context, via elicitation.Via) *elicitation.Call {
	t.Helper()
	r := newRig(t, elicitation.Options{})
	return r.beginIn(ctx, elicitation.Origin{Session: r.attach(elicitation.SessionInfo{})}, via, "")
}

// A gateway's middleware is told that the client's call is waiting for a person.
func TestCallOfTheClientWaitsWhileItsUpstreamAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		ctx := waiting.WithWatch(t.Context(), func(waits bool) { told = append(told, waits) })
		asked, answer := make(chan struct{}), make(chan struct{})
		c := beginCall(t, ctx, thinking(asked, answer))
		for _, refused := range []bool{false, true} {
			done := make(chan error, 1)
			go func() {
				// The upstream's request has a context of its own.
				ctx, cancel := context.WithCancel(context.Background())
				if refused {
					cancel()
				}
				_, err := c.Elicit(ctx, form("Sure?"))
				done <- err
				cancel()
			}()
			if !refused {
				<-asked
				wantEqual(t, "told while a person is asked", fmt.Sprint(told), "[true]")
				close(answer)
			}
			if err := <-done; (err != nil) != refused {
				t.Errorf("got %v", err)
			}
		}
		wantEqual(t, "told", fmt.Sprint(told), "[true false]")
	})
}

func TestQuestionEndsWhenTheGatewayCloses(t *testing.T) {
	for _, when := range []string{"while a person is asked", "before"} {
		t.Run(when, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var watch waiting.Watch
				asked := make(chan struct{}, 1)
				c := beginCall(t, watch.Attach(t.Context(), nil), thinking(asked, nil))
				if when == "before" {
					watch.End(waiting.ErrClosing)
				} else {
					go func() { <-asked; watch.End(waiting.ErrClosing) }()
				}
				_, err := c.Elicit(t.Context(), form("Sure?"))
				refused, ok := errors.AsType[*elicitation.Error](err)
				if !ok || refused.By != "shutdown" ||
					!errors.Is(err, waiting.ErrClosing) {
					t.Errorf("got %v, want a question cancelled by the shutdown", err)
				}
			})
		})
	}
}
