package inflight

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Timed behaves like the result of context.WithDeadlineCause. The real context and its timer are
// created when a goroutine waits. If the parent ends and the deadline passes before any method is
// called, the parent's error counts.
//
// With a context of package context in its place a plain call in a session takes 10 % more
// instructions and 8 allocations more, one that asks in place 12 % and 23.
//
// [Timed.Init] initializes it. It must not be copied. All methods may be called concurrently.
type Timed struct {
	parent   context.Context
	deadline time.Time
	cause    error

	mu     sync.Mutex
	real   context.Context    // nil until it is needed
	cancel context.CancelFunc // of real
	ended  bool               // cancelled before its parent, before the deadline and before real
}

var _ context.Context = (*Timed)(nil)

// Init makes c a child of parent that ends at the deadline, with a cause. It is called once, before
// any other method.
func (c *Timed) Init(parent context.Context, deadline time.Time, cause error) {
	c.parent, c.deadline, c.cause = parent, deadline, cause
}

// Cancel ends the context, as a context.CancelFunc does. It must be called in the end, to release
// the real context and its timer.
func (c *Timed) Cancel() {
	if cancel := c.noteEnd(); cancel != nil {
		cancel()
	}
}

// Parent returns the parent, for callers that enforce the deadline with a timer of their own.
func (c *Timed) Parent() context.Context { return c.parent }

// noteEnd records that c has ended. It returns the function that cancels the real context, nil if
// there is none.
func (c *Timed) noteEnd() context.CancelFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil && c.parent.Err() == nil && !c.isLate() {
		c.ended = true
	}
	return c.cancel
}

func (c *Timed) isLate() bool { return !time.Now().Before(c.deadline) }

// realizeLocked creates the real context. The caller holds mu.
func (c *Timed) realizeLocked() {
	switch {
	case c.real != nil:
	case c.ended: // neither the parent nor the deadline must give it another error now
		c.real, c.cancel = context.WithCancel(context.WithoutCancel(c.parent))
		c.cancel()
	default:
		c.real, c.cancel = context.WithDeadlineCause(c.parent, c.deadline, c.cause)
	}
}

// Done implements context.Context.
func (c *Timed) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.realizeLocked()
	return c.real.Done()
}

// Err implements context.Context.
func (c *Timed) Err() error { return c.currentContext().Err() }

// Deadline implements context.Context.
func (c *Timed) Deadline() (time.Time, bool) {
	if at, ok := c.parent.Deadline(); ok && at.Before(c.deadline) {
		return at, true
	}
	return c.deadline, true
}

// String names the context, as [Context.String] does.
func (c *Timed) String() string {
	if parent, ok := c.parent.(fmt.Stringer); ok {
		return parent.String() + ".WithDeadline(" + c.deadline.String() + ")"
	}
	return fmt.Sprintf("%T.WithDeadline(%v)", c.parent, c.deadline)
}

// Value implements context.Context, as [Context.Value] does.
func (c *Timed) Value(key any) any { return c.currentContext().Value(key) }

// currentContext returns the real context if it is needed to answer, otherwise the parent.
func (c *Timed) currentContext() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil && (c.ended || c.isLate()) {
		c.realizeLocked()
	}
	if c.real == nil {
		return c.parent
	}
	return c.real
}
