package humantime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
)

func TestTimeOfPeopleDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock humantime.Clock
		start := time.Now()
		limit := clock.WithTimeout(t.Context(), time.Minute)
		defer limit.Release()
		time.Sleep(30 * time.Second)
		resume := humantime.Pause(context.WithoutCancel(limit))
		time.Sleep(time.Hour)
		if limit.Err() != nil {
			t.Fatal("the limit ended while a person was waited for")
		}
		if got := limit.Used(); got != 30*time.Second {
			t.Errorf("got %v used, want 30 s", got)
		}
		resume()
		<-limit.Done()
		if got := time.Since(start); got != time.Hour+time.Minute {
			t.Errorf("the limit ended after %v, want an hour and a minute", got)
		}
		if context.Cause(limit) != context.DeadlineExceeded {
			t.Errorf("got the cause %v", context.Cause(limit))
		}
	})
}

func TestPauseFindsEachClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outer, inner, carried humantime.Clock
		a := outer.WithTimeout(t.Context(), time.Minute)
		defer a.Release()
		b := inner.WithTimeout(a, time.Second)
		defer b.Release()
		fired := make(chan time.Time, 1)
		start := time.Now()
		timer := carried.AfterFunc(time.Second, func() { fired <- time.Now() })
		defer timer.Stop()
		resume := humantime.Pause(carried.Carry(b))
		time.Sleep(time.Hour)
		if a.Err() != nil || b.Err() != nil || len(fired) != 0 {
			t.Fatalf("got %v, %v and %d, want that all clocks stand still", a.Err(), b.Err(),
				len(fired))
		}
		resume()
		if at := <-fired; at.Sub(start) != time.Hour+time.Second {
			t.Errorf("the timer fired after %v", at.Sub(start))
		}
		humantime.Pause(t.Context())() // has no clock
	})
}

func TestStoppedTimerDoesNotFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock humantime.Clock
		timer := clock.AfterFunc(time.Second, func() { t.Error("the timer fired") })
		timer.Stop()
		time.Sleep(time.Minute)
	})
}
