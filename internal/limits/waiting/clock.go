package waiting

// This file measures time spent waiting for a person, which time limits for programs exclude.

import (
	"context"
	"sync"
	"time"
)

// A Clock measures the time during which at least one person is being waited for. A context of
// [Clock.WithTimeout] carries it to code that blocks on the user, see [Pause]. The zero value is
// ready. It must not be copied. All methods may be called concurrently.
type Clock struct {
	mu      sync.Mutex
	waiting int       // calls of Begin without End
	since   time.Time // when waiting last rose from 0
	total   time.Duration
	timers  []*Timer // running, or paused while waiting > 0
	room    [1]*Timer
}

// Begin counts time as a person's until End. Each Begin needs an End.
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

// End ends one Begin.
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

// SetWaiting implements [Listener].
func (c *Clock) SetWaiting(waiting bool) {
	if waiting {
		c.Begin()
	} else {
		c.End()
	}
}

func (c *Clock) elapsedLocked() time.Duration {
	if c.waiting > 0 {
		return c.total + time.Since(c.since)
	}
	return c.total
}

// A Timer calls a function after a time without waits for people. The clock's mutex guards it.
type Timer struct {
	clock  *Clock
	limit  time.Duration
	start  time.Time
	before time.Duration // the clock's total at start
	expire func()
	timer  *time.Timer // nil if not running
	at     int         // index in the clock's timers
}

// AfterFunc returns a timer that calls f, on its own goroutine, after limit.
func (c *Clock) AfterFunc(limit time.Duration, f func()) *Timer {
	t := &Timer{}
	t.init(c, limit)
	t.run(f)
	return t
}

func (t *Timer) init(c *Clock, limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.clock, t.limit, t.start, t.before = c, limit, time.Now(), c.elapsedLocked()
}

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

func (t *Timer) runs() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.timer != nil
}

const stopped = -1 << 63

func (t *Timer) usedLocked() time.Duration {
	return time.Since(t.start) - (t.clock.elapsedLocked() - t.before)
}

func (t *Timer) leftLocked() time.Duration { return t.limit - t.usedLocked() }

// Used returns the time counted so far.
func (t *Timer) Used() time.Duration {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.usedLocked()
}

// check calls the function if the time is up. A wait may have just begun.
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

// Stop prevents the timer from firing, if it has not yet.
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

// A Limit is a context that ends after a time that excludes waiting for people. It has no deadline,
// and Err is [context.DeadlineExceeded] once the time is over. Until Done is called, it has no
// timer and compares times instead.
type Limit struct {
	Context
	Timer
	cause error
}

// WithTimeout returns a limit with the cause [context.DeadlineExceeded]. Release is required.
func (c *Clock) WithTimeout(ctx context.Context, limit time.Duration) *Limit {
	l := &Limit{}
	l.Start(ctx, c, limit, context.DeadlineExceeded)
	return l
}

// Start makes l a child of parent that ends after limit. Call it once, first, and Release last.
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
	if !l.runs() { // creates the function once
		l.run(l.exceed)
	}
	return l.Context.Done()
}

func (l *Limit) exceed() { l.Cancel(l.cause) }

// IsExceeded reports whether the time is over.
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

// Value implements [context.Context]. Derived contexts find the limit's clock.
func (l *Limit) Value(key any) any {
	if key == (clockKey{}) {
		return carrier{l.clock, l.Parent()}
	}
	return l.Context.Value(key)
}

type carrier struct {
	clock *Clock
	outer context.Context
}

// Carry returns a context in which [Pause] finds the clock.
func (c *Clock) Carry(ctx context.Context) context.Context {
	return context.WithValue(ctx, clockKey{}, carrier{c, ctx})
}

// Pause counts time as a person's for each clock of ctx, until resume is called.
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

// Sleep waits for d. It returns early, with the cause of ctx, if ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
