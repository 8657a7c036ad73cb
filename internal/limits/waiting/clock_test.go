package waiting_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

func TestTimeOfPeopleDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock waiting.Clock
		start := time.Now()
		limit := clock.WithTimeout(t.Context(), time.Minute)
		defer limit.Release()
		time.Sleep(30 * time.Second)
		resume := waiting.Pause(context.WithoutCancel(limit))
		time.Sleep(time.Hour)
		if limit.Err() != nil {
			t.Fatal("the limit ended while a person was waited for")
		}
		wantEqual(t, "time used", limit.Used(), 30*time.Second)
		resume()
		<-limit.Done()
		wantEqual(t, "the limit ended after", time.Since(start), time.Hour+time.Minute)
		wantEqual(t, "cause", context.Cause(limit), context.DeadlineExceeded)
	})
}

func TestPauseFindsEachClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outer, inner, carried waiting.Clock
		a := outer.WithTimeout(t.Context(), time.Minute)
		defer a.Release()
		b := inner.WithTimeout(a, time.Second)
		defer b.Release()
		fired := make(chan time.Time, 1)
		start := time.Now()
		timer := carried.AfterFunc(time.Second, func() { fired <- time.Now() })
		defer timer.Stop()
		resume := waiting.Pause(carried.Carry(b))
		time.Sleep(time.Hour)
		if a.Err() != nil || b.Err() != nil || len(fired) != 0 {
			t.Fatalf("got %v, %v and %d, want that all clocks stand still", a.Err(), b.Err(),
				len(fired))
		}
		resume()
		wantEqual(t, "the timer fired after", (<-fired).Sub(start), time.Hour+time.Second)
		waiting.Pause(t.Context())() // has no clock
	})
}

func TestStoppedTimerDoesNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock waiting.Clock
		timer := clock.AfterFunc(time.Second, func() { t.Error("the timer fired") })
		timer.Stop()
		time.Sleep(time.Minute)
	})
}

// TestTimersOfOneClock ends and starts timers while a person is waited for; the others continue.
func TestTimersOfOneClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock waiting.Clock
		start := time.Now()
		fired := make(chan time.Duration, 4)
		after := func(limit time.Duration) *waiting.Timer {
			return clock.AfterFunc(limit, func() { fired <- time.Since(start) })
		}
		first, second, third := after(time.Second), after(2*time.Second), after(3*time.Second)
		clock.Begin()
		first.Stop()
		fourth := after(time.Second / 2)
		clock.Begin() // another question
		time.Sleep(time.Hour)
		clock.End()
		time.Sleep(time.Hour)
		clock.End()
		for _, want := range []time.Duration{time.Second / 2, 2 * time.Second, 3 * time.Second} {
			wantEqual(t, "a timer fired after", <-fired, 2*time.Hour+want)
		}
		for _, timer := range []*waiting.Timer{first, second, third, fourth} {
			timer.Stop()
		}
	})
}

// TestLimitWithoutATimer checks that an unwatched limit compares times.
func TestLimitWithoutATimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock waiting.Clock
		var limit waiting.Limit
		over := errors.New("over")
		limit.Start(t.Context(), &clock, time.Second, over)
		defer limit.Release()
		clock.SetWaiting(true)
		time.Sleep(time.Minute)
		clock.SetWaiting(false)
		if limit.IsExceeded() || limit.Err() != nil {
			t.Error("a person's time counted")
		}
		time.Sleep(time.Second)
		if limit.Err() != context.DeadlineExceeded || context.Cause(&limit) != over {
			t.Errorf("got %v, %v", limit.Err(), context.Cause(&limit))
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	stop := errors.New("the cause of a test")
	for _, test := range []struct {
		name  string
		after time.Duration // until the context ends
		want  error
		took  time.Duration
	}{
		{"not at all", 2 * time.Minute, nil, time.Minute},
		{"while it lasts", time.Second, stop, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				timer := time.AfterFunc(test.after, func() { cancel(stop) })
				defer timer.Stop()
				start := time.Now()
				wantEqual(t, "the end of the sleep", waiting.Sleep(ctx, time.Minute), test.want)
				wantEqual(t, "time slept", time.Since(start), test.took)
			})
		})
	}
}
