package waiting

// This file has lazy cancellable contexts: a real one is created only when a goroutine waits for
// the end. Most requests never do, and context.WithCancelCause costs seven allocations.

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Context behaves like the result of context.WithCancelCause, but creates the real context only
// when Done is called, as deriving a context does, or when cancelled with a cause. Until then its
// parent answers. [Context.Init] initializes it. Do not copy it. Calls may overlap.
type Context struct {
	parent context.Context
	values Values // see SetValues

	mu     sync.Mutex
	real   context.Context         // nil until needed
	cancel context.CancelCauseFunc // of real
	ended  bool                    // cancelled without a cause, before its parent ended and real existed
	heir   *Context                // a child deriving from c's ancestor; cancelled with c
}

var _ context.Context = (*Context)(nil)

// Init makes c a child of parent. Call it once, first.
func (c *Context) Init(parent context.Context) { c.parent = parent }

// Parent returns the parent given to Init.
func (c *Context) Parent() context.Context { return c.parent }

// Values extend the values of a [Context]'s parent. Value returns nil for an unknown key.
type Values interface{ Value(key any) any }

// SetValues makes c.Value prefer values. Call it at most once, before c is used.
func (c *Context) SetValues(values Values) { c.values = values }

// Cancel ends the context with a cause, which may be nil, like a context.CancelCauseFunc. It must
// be called in the end, to free the real context if there is one.
func (c *Context) Cancel(cause error) {
	cancel, heir := c.noteEnd(cause)
	if cancel != nil {
		cancel(cause) // without the mutex: functions of context.AfterFunc may call c
	}
	if heir != nil {
		heir.Cancel(cause)
	}
	if parent, ok := c.parent.(*Context); ok {
		parent.mu.Lock()
		defer parent.mu.Unlock()
		if parent.heir == c {
			parent.heir = nil
		}
	}
}

// noteEnd records c's end. It returns the real cancel function, or nil, and the heir to cancel.
func (c *Context) noteEnd(cause error) (context.CancelCauseFunc, *Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil || c.ended:
	case cause != nil:
		c.realizeLocked()
	default: // if the parent has ended, c reports its error
		c.ended = c.parent.Err() == nil
	}
	heir := c.heir
	c.heir = nil
	return c.cancel, heir
}

func (c *Context) realizeLocked() {
	if !c.ended {
		c.real, c.cancel = context.WithCancelCause(c.ancestorLocked())
		return
	}
	// From now on the parent must not end it with another error.
	c.real, c.cancel = context.WithCancelCause(context.WithoutCancel(c.parent))
	c.cancel(nil)
}

// ancestorLocked returns the parent for c's real context: the nearest ancestor with a real context,
// or the first that is not a Context. So waiting for a chain's last creates one real context.
func (c *Context) ancestorLocked() context.Context {
	if parent, ok := c.parent.(*Context); ok {
		if stem := parent.adoptChild(c); stem != nil {
			return stem
		}
	}
	return c.parent
}

// adoptChild makes child the heir of c and returns the context that it derives from instead, or nil
// if it must derive from c. Mutexes are locked from child to parent, never the other way.
func (c *Context) adoptChild(child *Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real != nil || c.ended || (c.heir != nil && c.heir != child) {
		return nil
	}
	c.heir = child
	return c.ancestorLocked()
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil {
		c.realizeLocked()
	}
	return c.real.Done()
}

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	from, ended := c.real, c.ended
	c.mu.Unlock()
	switch {
	case from != nil:
		return from.Err()
	case ended:
		return context.Canceled
	}
	return c.parent.Err()
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// String names the context. Otherwise package fmt would read the fields that the mutex guards.
func (c *Context) String() string {
	if parent, ok := c.parent.(fmt.Stringer); ok {
		return parent.String() + ".WithCancel"
	}
	return fmt.Sprintf("%T.WithCancel", c.parent)
}

// Value implements context.Context. Private keys of package context must reach the real one.
func (c *Context) Value(key any) any {
	// The real context may derive from above several lazy contexts, whose values it lacks.
	for own := c; own != nil; own, _ = own.parent.(*Context) {
		if own.values == nil {
			continue
		}
		if v := own.values.Value(key); v != nil {
			return v
		}
	}
	from := c.parent
	c.mu.Lock()
	if c.real == nil && c.ended {
		c.realizeLocked()
	}
	if c.real != nil {
		from = c.real
	}
	c.mu.Unlock()
	return from.Value(key)
}
