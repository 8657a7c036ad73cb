package waiting

// This file has cancellable contexts that are created lazily: a real context of package context is
// made only when a goroutine waits for the end.
//
// A server gives each request a context of its own, so that it can cancel the request when it shuts
// down or the client disconnects. Most handlers only compute and never wait for the context. For
// those, the channel, the registration with the parent and the closures of context.WithCancelCause
// would be wasted: seven allocations for each context.

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Context behaves like the result of context.WithCancelCause. The real context is created when
// Done is called, which deriving a context does too, or when it is cancelled with a cause. Until
// then Context computes its answers from its parent.
//
// [Context.Init] initializes it. It must not be copied. All methods may be called concurrently.
type Context struct {
	parent context.Context
	values Values // see SetValues

	mu     sync.Mutex
	real   context.Context         // nil until it is needed
	cancel context.CancelCauseFunc // of real
	ended  bool                    // cancelled without a cause, before its parent and before real
	heir   *Context                // a child that derives from c's ancestor; cancelled when c is
}

var _ context.Context = (*Context)(nil)

// Init makes c a child of parent. It is called once, before anything else.
func (c *Context) Init(parent context.Context) { c.parent = parent }

// Parent returns the parent that Init was given.
func (c *Context) Parent() context.Context { return c.parent }

// Values are what a [Context] adds to the values of its parent. Value returns nil for a key that it
// has nothing for.
type Values interface{ Value(key any) any }

// SetValues makes c.Value(key) return what values has, if it has anything, as context.WithValue
// would. It is called at most once, before c is used.
func (c *Context) SetValues(values Values) { c.values = values }

// Cancel ends the context with a cause, which may be nil, as a context.CancelCauseFunc does. It
// must be called in the end, to release the real context if there is one.
func (c *Context) Cancel(cause error) {
	cancel, heir := c.noteEnd(cause)
	if cancel != nil {
		cancel(cause) // without the mutex, since functions of context.AfterFunc may call c
	}
	if heir != nil {
		heir.Cancel(cause)
	}
	if parent, ok := c.parent.(*Context); ok {
		parent.forgetChild(c)
	}
}

// noteEnd records that c has ended. It returns the function that cancels the real context, nil if
// there is none, and the heir, which the caller must cancel as well.
func (c *Context) noteEnd(cause error) (context.CancelCauseFunc, *Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil || c.ended:
	case cause != nil:
		c.realizeLocked()
	default: // if the parent has ended, c reports the parent's error
		c.ended = c.parent.Err() == nil
	}
	heir := c.heir
	c.heir = nil
	return c.cancel, heir
}

// realizeLocked creates the real context. The caller holds mu.
func (c *Context) realizeLocked() {
	if !c.ended {
		c.real, c.cancel = context.WithCancelCause(c.ancestorLocked())
		return
	}
	// The parent must not give it another error now.
	c.real, c.cancel = context.WithCancelCause(context.WithoutCancel(c.parent))
	c.cancel(nil)
}

// ancestorLocked returns the context that c's real context derives from: the nearest ancestor that
// has a real context, or the first one that is not a Context. So a chain of lazy contexts in which
// only the last one is waited for creates one real context. The caller holds mu.
func (c *Context) ancestorLocked() context.Context {
	if parent, ok := c.parent.(*Context); ok {
		if stem := parent.adoptChild(c); stem != nil {
			return stem
		}
	}
	return c.parent
}

// adoptChild makes child the heir of c and returns the context that child derives from instead of
// c. It returns nil when child must derive from c. Mutexes are locked from child to parent, never
// the other way.
func (c *Context) adoptChild(child *Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real != nil || c.ended || (c.heir != nil && c.heir != child) {
		return nil
	}
	c.heir = child
	return c.ancestorLocked()
}

// forgetChild removes a child that has ended.
func (c *Context) forgetChild(child *Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heir == child {
		c.heir = nil
	}
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
	case ended:
		return context.Canceled
	default:
		from = c.parent
	}
	return from.Err()
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// String names the context in the style of package context. Without it, package fmt would read the
// fields that the mutex guards.
func (c *Context) String() string {
	if parent, ok := c.parent.(fmt.Stringer); ok {
		return parent.String() + ".WithCancel"
	}
	return fmt.Sprintf("%T.WithCancel", c.parent)
}

// Value implements context.Context. Package context finds causes and cancellable ancestors with
// private keys, so these must reach the real context.
func (c *Context) Value(key any) any {
	// The real context may derive from an ancestor above several lazy contexts, whose values it
	// misses.
	for own := c; own != nil; own, _ = own.parent.(*Context) {
		if own.values == nil {
			continue
		}
		if v := own.values.Value(key); v != nil {
			return v
		}
	}
	return c.currentContext().Value(key)
}

// currentContext returns the real context if it is needed to answer, otherwise the parent.
func (c *Context) currentContext() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real == nil && c.ended {
		c.realizeLocked()
	}
	if c.real == nil {
		return c.parent
	}
	return c.real
}
