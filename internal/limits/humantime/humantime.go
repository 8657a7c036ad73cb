// Package humantime measures the time in which a program waits for a person, so that time
// limits for other programs leave it out. A [Clock] counts it, and a context of
// [Clock.WithTimeout] takes the clock to whoever learns that a person is needed, see [Pause].
package humantime

import (
	"context"
	"sync"
	"time"
)

// A Clock measures the time in which at least one person is waited for. The zero value is
// ready. All methods may be called concurrently.
type Clock struct {
	mu      sync.Mutex
	waiting int       // how often Begin was called without End
	since   time.Time // when waiting last rose from 0
	total   time.Duration
}

// Begin counts time as a person's until End is called. Calls may overlap: each Begin needs an
// End.
func (c *Clock) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting++; c.waiting == 1 {
		c.since = time.Now()
	}
}

// End ends what one call of Begin began.
func (c *Clock) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting--; c.waiting == 0 {
		c.total += time.Since(c.since)
	}
}

// isWaiting reports whether a person is waited for.
func (c *Clock) isWaiting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting > 0
}

// elapsed returns the total time in which a person was waited for.
func (c *Clock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting > 0 {
		return c.total + time.Since(c.since)
	}
	return c.total
}

// recheck is the interval at which a timer looks again while a person is waited for.
const recheck = 100 * time.Millisecond

// A Timer calls a function after a time in which no person is waited for.
type Timer struct {
	clock  *Clock
	limit  time.Duration
	start  time.Time
	before time.Duration // what the clock said at start
	expire func()

	mu      sync.Mutex // the timer may fire before the field is set
	timer   *time.Timer
	stopped bool
}

// AfterFunc returns a timer that calls f, on a goroutine of its own, after limit.
func (c *Clock) AfterFunc(limit time.Duration, f func()) *Timer {
	t := &Timer{}
	t.begin(c, limit, f)
	return t
}

func (t *Timer) begin(c *Clock, limit time.Duration, f func()) {
	t.clock, t.limit, t.expire = c, limit, f
	t.start, t.before = time.Now(), c.elapsed()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(limit, t.check)
}

// Used returns the time that has counted so far.
func (t *Timer) Used() time.Duration {
	return time.Since(t.start) - (t.clock.elapsed() - t.before)
}

// check calls the function if the time is up, else it sets the timer anew.
func (t *Timer) check() {
	if t.isDue() {
		t.expire()
	}
}

func (t *Timer) isDue() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	more := t.limit - t.Used()
	switch {
	case t.stopped:
	case more <= 0:
		return true
	case t.clock.isWaiting():
		t.timer.Reset(max(more, recheck))
	default:
		t.timer.Reset(more)
	}
	return false
}

// Stop keeps the timer from firing, if it has not fired.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}

// A Limit is a context that is cancelled, with the cause [context.DeadlineExceeded], after a
// time in which no person is waited for. It has no deadline.
type Limit struct {
	context.Context
	cancel context.CancelCauseFunc
	Timer
}

// WithTimeout returns a limit. The caller must call Release.
func (c *Clock) WithTimeout(ctx context.Context, limit time.Duration) *Limit {
	l := &Limit{}
	l.Context, l.cancel = context.WithCancelCause(ctx)
	l.begin(c, limit, l.exceed)
	return l
}

func (l *Limit) exceed() { l.cancel(context.DeadlineExceeded) }

// Release ends the context and stops the timer.
func (l *Limit) Release() {
	l.cancel(nil)
	l.Stop()
}

type clockKey struct{}

// Value implements [context.Context]. Contexts that are derived from the limit find its clock.
func (l *Limit) Value(key any) any {
	if key == (clockKey{}) {
		return carrier{l.clock, l.Context}
	}
	return l.Context.Value(key)
}

// A carrier is the clock that a context has, and the context around it.
type carrier struct {
	clock *Clock
	outer context.Context
}

// Carry returns a context by which [Pause] finds the clock.
func (c *Clock) Carry(ctx context.Context) context.Context {
	return context.WithValue(ctx, clockKey{}, carrier{c, ctx})
}

// Pause begins to count time as a person's for each clock that ctx has, until the function
// that it returns is called.
func Pause(ctx context.Context) (resume func()) {
	var clocks []*Clock
	for {
		found, ok := ctx.Value(clockKey{}).(carrier)
		if !ok {
			break
		}
		found.clock.Begin()
		clocks, ctx = append(clocks, found.clock), found.outer
	}
	return func() {
		for _, c := range clocks {
			c.End()
		}
	}
}
