// Package humantime measures the time in which a program waits for a person, so that time
// limits for other programs leave it out. A [Clock] counts it, and a context of
// [Clock.WithTimeout] takes the clock to whoever learns that a person is needed, see [Pause].
package humantime

import (
	"context"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/inflight"
)

// A Clock measures the time in which at least one person is waited for. The zero value is
// ready. It must not be copied. All methods may be called concurrently.
type Clock struct {
	mu      sync.Mutex
	waiting int       // how often Begin was called without End
	since   time.Time // when waiting last rose from 0
	total   time.Duration
	timers  []*Timer // that run, or stand still while waiting is not 0
	room    [1]*Timer
}

// Begin counts time as a person's until End is called. Calls may overlap: each Begin needs an
// End.
func (c *Clock) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting++; c.waiting > 1 {
		return
	}
	c.since = time.Now()
	for _, t := range c.timers {
		t.timer.Stop()
	}
}

// End ends what one call of Begin began.
func (c *Clock) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting--; c.waiting > 0 {
		return
	}
	c.total += time.Since(c.since)
	for _, t := range c.timers {
		t.timer.Reset(max(t.leftLocked(), 0))
	}
}

// SetWaiting implements [waiting.Listener]: it is Begin and End.
func (c *Clock) SetWaiting(waiting bool) {
	if waiting {
		c.Begin()
	} else {
		c.End()
	}
}

// elapsedLocked returns the total time in which a person was waited for.
func (c *Clock) elapsedLocked() time.Duration {
	if c.waiting > 0 {
		return c.total + time.Since(c.since)
	}
	return c.total
}

// A Timer calls a function after a time in which no person is waited for. The mutex of the clock
// guards it.
type Timer struct {
	clock  *Clock
	limit  time.Duration
	start  time.Time
	before time.Duration // what the clock said at start
	expire func()
	timer  *time.Timer // nil: it does not run
	at     int         // where it stands among those of the clock
}

// AfterFunc returns a timer that calls f, on a goroutine of its own, after limit.
func (c *Clock) AfterFunc(limit time.Duration, f func()) *Timer {
	t := &Timer{}
	t.init(c, limit)
	t.run(f)
	return t
}

// init begins to measure.
func (t *Timer) init(c *Clock, limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.clock, t.limit, t.start, t.before = c, limit, time.Now(), c.elapsedLocked()
}

// run has the timer call f, unless it runs already or is stopped.
func (t *Timer) run(f func()) {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.timer != nil || t.limit == stopped {
		return
	}
	t.expire = f
	t.timer = time.AfterFunc(max(t.leftLocked(), 0), t.check)
	if c.waiting > 0 {
		t.timer.Stop() // until the wait is over
	}
	if c.timers == nil {
		c.timers = c.room[:0]
	}
	t.at, c.timers = len(c.timers), append(c.timers, t)
}

// runs reports whether the timer would call its function.
func (t *Timer) runs() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.timer != nil
}

// stopped is the limit of a timer that never fires.
const stopped = -1 << 63

func (t *Timer) usedLocked() time.Duration {
	return time.Since(t.start) - (t.clock.elapsedLocked() - t.before)
}

func (t *Timer) leftLocked() time.Duration { return t.limit - t.usedLocked() }

// Used returns the time that has counted so far.
func (t *Timer) Used() time.Duration {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.usedLocked()
}

// check calls the function if the time is up. It may be called when a wait has just begun.
func (t *Timer) check() {
	if t.isDue() {
		t.expire()
	}
}

func (t *Timer) isDue() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.limit != stopped && t.clock.waiting == 0 && t.leftLocked() <= 0
}

// Stop keeps the timer from firing, if it has not fired.
func (t *Timer) Stop() {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	t.limit = stopped
	if t.timer == nil {
		return
	}
	t.timer.Stop()
	t.timer = nil
	last := len(c.timers) - 1
	c.timers[t.at] = c.timers[last]
	c.timers[t.at].at = t.at
	c.timers[last] = nil
	c.timers = c.timers[:last]
}

// A Limit is a context that is cancelled after a time in which no person is waited for. It has no
// deadline. Until somebody waits for its end it has no timer, and tells by the time whether it has
// ended; its Err is then [context.DeadlineExceeded].
type Limit struct {
	inflight.Context
	Timer
	cause error
}

// WithTimeout returns a limit whose cause is [context.DeadlineExceeded]. The caller must call
// Release.
func (c *Clock) WithTimeout(ctx context.Context, limit time.Duration) *Limit {
	l := &Limit{}
	l.Start(ctx, c, limit, context.DeadlineExceeded)
	return l
}

// Start makes l a child of parent that ends after limit on the clock, with a cause. The caller must
// call Release. It is called once, before any other method.
func (l *Limit) Start(parent context.Context, c *Clock, limit time.Duration, cause error) {
	l.cause = cause
	l.Context.Init(parent)
	l.Timer.init(c, limit)
}

// Release ends the context and stops the timer.
func (l *Limit) Release() {
	l.Stop()
	l.Cancel(nil)
}

// Done implements [context.Context].
func (l *Limit) Done() <-chan struct{} {
	if !l.runs() { // the function is made once
		l.run(l.exceed)
	}
	return l.Context.Done()
}

func (l *Limit) exceed() { l.Cancel(l.cause) }

// IsExceeded reports whether the context has ended because its time is over.
func (l *Limit) IsExceeded() bool {
	if l.isDue() {
		l.exceed()
	}
	return context.Cause(&l.Context) == l.cause
}

// Err implements [context.Context].
func (l *Limit) Err() error {
	if l.IsExceeded() {
		return context.DeadlineExceeded
	}
	return l.Context.Err()
}

type clockKey struct{}

// Value implements [context.Context]. Contexts that are derived from the limit find its clock.
func (l *Limit) Value(key any) any {
	if key == (clockKey{}) {
		return carrier{l.clock, l.Parent()}
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
