package lazyctx

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Timed is what context.WithDeadlineCause returns, made when it is needed: the timer, too, runs only once somebody waits. Where
// the parent has ended and the deadline has passed before anybody looked, what the parent says counts.
//
// It is made by [Timed.Init] and must not be copied. All methods may be called concurrently.
type Timed struct {
	parent   context.Context
	deadline time.Time
	cause    error

	mu     sync.Mutex
	real   context.Context // nil until it is needed
	cancel context.CancelFunc
	ended  bool // before its parent, before its time and with nobody looking
}

var _ context.Context = (*Timed)(nil)

// Init makes c a child of parent that ends at the deadline, with a cause. It is called once, before anything else.
func (c *Timed) Init(parent context.Context, deadline time.Time, cause error) {
	c.parent, c.deadline, c.cause = parent, deadline, cause
}

// Cancel ends the context, as a context.CancelFunc does. It must be called in the end, to release what the context may have come
// to hold.
func (c *Timed) Cancel() {
	if cancel := c.noteEnd(); cancel != nil {
		cancel()
	}
}

// Parent returns the context that c is a child of, for those who keep to the deadline by themselves.
func (c *Timed) Parent() context.Context { return c.parent }

// noteEnd notes the end. It returns the function that brings it about where there is one.
func (c *Timed) noteEnd() context.CancelFunc {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil && c.parent.Err() == nil && !c.isLate() {
		c.ended = true
	}
	return c.cancel
}

func (c *Timed) isLate() bool { return !time.Now().Before(c.deadline) }

// realizeLocked makes the real context. It is called with mu held.
func (c *Timed) realizeLocked() {
	switch {
	case c.real != nil:
	case c.ended: // neither the parent nor time must give it another reason now
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
func (c *Timed) Err() error { return c.current().Err() }

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
func (c *Timed) Value(key any) any { return c.current().Value(key) }

// current returns the context that has all that there is to say: the parent, as long as this one has not ended by itself.
func (c *Timed) current() context.Context {
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
