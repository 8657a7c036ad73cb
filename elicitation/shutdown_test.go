package elicitation_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// Host code that blocks or panics for one question delays neither the others nor Shutdown.
func TestShutdownWithStuckHost(t *testing.T) {
	const questions = 8
	const stuck = 20 * time.Second // less than a timeout, whose log entry would block, too
	for _, test := range []struct {
		name string
		log  func()
		want int32 // questions whose upstream got an error
	}{
		{"all return", func() {}, questions},
		{"a log blocks", func() { time.Sleep(stuck) }, questions - 1},
		{"a log panics", func() { panic("host") }, questions},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logged, ended atomic.Int32
				r := newRig(t, elicitation.Options{Log: logFunc(func(name string) {
					if name == "elicitation.cancelled" && logged.Add(1) == 1 {
						test.log()
					}
				})})
				s := r.attach(elicitation.SessionInfo{ID: "s1"})
				call := r.begin(elicitation.Origin{Session: s}, byHand(), "up")
				for range questions {
					_, err := offer(call, t.Context(), form("m"), func(o outcome) {
						refused(t, o.Err, elicitation.ReasonShutdown, protocol.CodeBusy,
							"The gateway is shutting down")
						if e, ok := errors.AsType[*elicitation.Error](o.Err); !ok ||
							e.RetryAfter != 5*time.Second ||
							string(e.Wire.Data) != `{"retryAfterMs":5000}` {
							t.Errorf("got %+v, want when to ask again", o.Err)
						}
						ended.Add(1)
					})
					noError(t, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				err := r.Shutdown(ctx)
				if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) ||
					took > 5*time.Second {
					t.Errorf("Shutdown: %v after %v", err, took)
				}
				synctest.Wait()
				wantEqual(t, "questions that ended", ended.Load(), test.want)
				r.settled()
				time.Sleep(stuck)
			})
		})
	}
}

func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, elicitation.Options{})
		s, offered, outcome := r.offered()
		offered.ConfirmDelivery()
		done := make(chan error)
		go func() { done <- r.Shutdown(t.Context()) }()
		synctest.Wait()
		_, err := r.Attach(elicitation.SessionInfo{})
		wantIs(t, "Attach", err, elicitation.ReasonShutdown)
		_, err = r.Begin(t.Context(), elicitation.Origin{Session: s}, byHand(), "up")
		wantIs(t, "Begin", err, elicitation.ReasonShutdown)
		_, err = offer(offered.Call(), t.Context(), form("m"), nil)
		refused(t, err, elicitation.ReasonShutdown, protocol.CodeBusy,
			"The gateway is shutting down")
		_, err = r.ElicitFrom(t.Context(), "up", form("m"))
		refused(t, err, elicitation.ReasonShutdown, protocol.CodeBusy,
			"The gateway is shutting down")
		r.complete(s.Sender(), result(offered.Request().ID, yes), elicitation.Accepted)
		if err := <-done; err != nil || outcome.Result == nil {
			t.Errorf("Shutdown: %v, outcome %+v", err, outcome)
		}
		if err := r.Shutdown(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
		r.settled()
	})
}

// A transport that ignores its context does not block Shutdown for ever.
func TestShutdownWithDeafTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSceneVia(t, elicitation.Options{}, sends(func(_ context.Context,
			m protocol.Message) error {
			if _, ok := m.(*protocol.Notification); ok {
				time.Sleep(time.Hour)
			}
			return nil
		}))
		go r.ask(form("m"))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if err := r.Shutdown(ctx); !errors.Is(err, context.Canceled) ||
			time.Since(began) > 5*time.Second {
			t.Errorf("Shutdown: %v after %v", err, time.Since(began))
		}
		r.settled()
		time.Sleep(2 * time.Hour)
	})
}
