package waiting_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
)

// day is the number of heartbeats in a day, the longest flow.
const day = int(24 * time.Hour / waiting.HeartbeatInterval)

func TestHeartbeatsRiseAndStayBelowTheAuthorsNextValue(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []float64
		next  float64
		beats int
	}{
		{"nothing reported", nil, 1, day},
		{"steps of one", []float64{1, 2}, 3, day},
		{"hundredths", []float64{.01, .02}, .03, day},
		{"a large step, then a small one", []float64{.5}, .51, day},
		{"bytes", []float64{1 << 30}, 1<<30 + 1, 80},
		{"negative", []float64{-3}, -2, day},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s waiting.ProgressSequence
			last := math.Inf(-1)
			for _, step := range c.steps {
				value, ok := s.Report(step, 0)
				if !ok || value != step {
					t.Fatalf("reported %v: got %v, %v", step, value, ok)
				}
				last = value
			}
			for i := range c.beats {
				value, _, ok := s.Beat()
				if !ok || value <= last {
					t.Fatalf("heartbeat %d: got %v, %v after %v", i, value, ok, last)
				}
				last = value
			}
			if value, ok := s.Report(c.next, 0); !ok || value != c.next {
				t.Errorf("the author's next value %v went out as %v, %v after heartbeats up to %v",
					c.next, value, ok, last)
			}
		})
	}
}

func TestAuthorsValueBelowAHeartbeatGoesOutAboveIt(t *testing.T) {
	var s waiting.ProgressSequence
	s.Report(1, 0)
	beat, _, _ := s.Beat()
	value, ok := s.Report(math.Nextafter(1, 2), 0)
	if !ok || value <= beat || value > 1.001 {
		t.Errorf("got %v, %v after a heartbeat of %v, want a value just above", value, ok, beat)
	}
}

func TestWhatARunRepeatsIsNotSentAgain(t *testing.T) {
	var s waiting.ProgressSequence
	s.Report(2, 0)
	s.Beat()
	for _, repeated := range []float64{1, 2} {
		if value, ok := s.Report(repeated, 0); ok {
			t.Errorf("%v was sent again, as %v", repeated, value)
		}
	}
}

func TestHeartbeatKeepsTheTotal(t *testing.T) {
	var s waiting.ProgressSequence
	_, total, _ := s.Beat()
	wantEqual(t, "total before the author named one", total, 0.0)
	s.Report(1, 3)
	_, total, _ = s.Beat()
	wantEqual(t, "total", total, 3.0)
	s.Report(3, 3)
	_, total, _ = s.Beat()
	wantEqual(t, "total beside a larger value", total, 0.0)
}

func TestNoHeartbeatAboveTheLargestNumber(t *testing.T) {
	var s waiting.ProgressSequence
	s.Report(math.MaxFloat64, 0)
	if value, _, ok := s.Beat(); ok {
		t.Errorf("got %v", value)
	}
}

func TestTimerBeatsAfterTwoSecondsAndThenEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		var at []time.Duration
		timer := waiting.StartHeartbeat(t.Context(), 15*time.Second,
			func(context.Context) { at = append(at, time.Since(started)) })
		time.Sleep(40 * time.Second)
		timer.Stop()
		timer.Stop()
		time.Sleep(time.Hour)
		want := []time.Duration{2 * time.Second, 17 * time.Second, 32 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("got %v, want %v", at, want)
		}
	})
}

// A slow client blocks a heartbeat, but must not block the answer.
func TestStopEndsAHeartbeatThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended, calls := false, 0
		timer := waiting.StartHeartbeat(t.Context(), time.Second, func(ctx context.Context) {
			calls++
			<-ctx.Done()
			ended = true
		})
		time.Sleep(time.Minute)
		timer.Stop()
		if !ended {
			t.Error("Stop returned while a heartbeat was being sent")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		wantEqual(t, "heartbeats before and after Stop", calls, 1)
	})
}

func TestTimerEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		timer := waiting.StartHeartbeat(ctx, time.Second,
			func(context.Context) { t.Error("a heartbeat after the end") })
		cancel()
		time.Sleep(time.Minute)
		timer.Stop()
	})
}

func TestStopOfNoTimer(t *testing.T) {
	var none *waiting.Heartbeat
	none.Stop()
}

// The type touched counts checks of a context's end.
type touched struct {
	context.Context
	times atomic.Int32
}

func (c *touched) Done() <-chan struct{} {
	c.times.Add(1)
	return c.Context.Done()
}

func (c *touched) Err() error {
	c.times.Add(1)
	return c.Context.Err()
}

// A running timer would retain the call's memory, unnoticed by tests that count.
func TestStopStopsTheTimer(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration
	}{
		{"before the first heartbeat", 0},
		{"between two heartbeats", 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := &touched{Context: t.Context()}
				timer := waiting.StartHeartbeat(ctx, 15*time.Second, func(context.Context) {})
				time.Sleep(c.wait)
				timer.Stop()
				before := ctx.times.Load()
				time.Sleep(time.Hour)
				synctest.Wait()
				wantEqual(t, "uses of the context after Stop", ctx.times.Load(), before)
			})
		})
	}
}
