package elicitation_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
)

// The host's clock stands still while a person is asked.
func TestPauseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, cancel := elicitation.NewPausableTimeout(t.Context(), 30*time.Second)
		defer cancel()
		r := newRig(t, elicitation.Options{})
		s := r.attach(elicitation.SessionInfo{ID: "s1"})
		call := r.beginIn(ctx, elicitation.Origin{Session: s, PauseTimeout: clock.Pause},
			elicitation.ViaFrames(r.answersAfter(s, 50*time.Second)), "up")
		began := time.Now()
		time.Sleep(20 * time.Second)
		for range 2 {
			if _, err := call.Elicit(t.Context(), form("m"), nil); err != nil {
				t.Fatal(err)
			}
		}
		<-ctx.Done()
		if took := time.Since(began); took != 130*time.Second ||
			!errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			t.Errorf("the clock ran out after %v with %v, want 130s", took, context.Cause(ctx))
		}
	})
}

func TestToolClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, cancel := elicitation.NewPausableTimeout(t.Context(), 10*time.Second)
		first, second := clock.Pause(), clock.Pause()
		time.Sleep(time.Minute)
		first()
		first()
		time.Sleep(time.Minute)
		if ctx.Err() != nil {
			t.Error("a clock that is paused twice ran after one resume")
		}
		second()
		time.Sleep(9 * time.Second)
		if ctx.Err() != nil {
			t.Error("the clock ran out early")
		}
		cancel()
		cancel()
		clock.Pause()()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("cause is %v", context.Cause(ctx))
		}
		ctx, _, cancel = elicitation.NewPausableTimeout(t.Context(), 0)
		defer cancel()
		<-ctx.Done()
	})
}
