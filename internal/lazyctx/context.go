// Package lazyctx has contexts that can be cancelled and cost next to nothing until somebody waits for it.
//
// A server gives each request a context of its own, so that it can cancel the request when it shuts down or the client goes
// away. Most handlers are done before they look: they compute, and never wait for the context. For those, the channel, the
// registration with the parent and the closures of context.WithCancelCause are made in vain, seven allocations at a time.
package lazyctx

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Context is what context.WithCancelCause returns, made when it is needed: when Done is called, which deriving a context does,
// too, or when it is cancelled with a cause. Until then it answers for itself.
//
// It is made by [Context.Init] and must not be copied. All methods may be called concurrently.
type Context struct {
	parent     context.Context
	key, value any // see SetValue

	mu     sync.Mutex
	real   context.Context // nil until it is needed
	cancel context.CancelCauseFunc
	ended  bool     // without a cause, before its parent and with nobody looking
	heir   *Context // a child that hangs on what c hangs on, and is told when c ends; nil: none
}

var _ context.Context = (*Context)(nil)

// Init makes c a child of parent. It is called once, before anything else.
func (c *Context) Init(parent context.Context) { c.parent = parent }

// SetValue has c answer key with value, as a child that context.WithValue returns would. It is called at most once, before c is
// used.
func (c *Context) SetValue(key, value any) { c.key, c.value = key, value }

// Cancel ends the context with a cause, as a context.CancelCauseFunc does. It must be called in the end, nil will do, to release
// what the context may have come to hold.
func (c *Context) Cancel(cause error) {
	cancel, heir := c.noteEnd(cause)
	if cancel != nil {
		cancel(cause) // without the mutex: whoever waits may ask back
	}
	if heir != nil {
		heir.Cancel(cause)
	}
	if parent, ok := c.parent.(*Context); ok {
		parent.forgetChild(c)
	}
}

// noteEnd notes the end. It returns the function that brings it about where there is one, and who else must hear of it.
func (c *Context) noteEnd(cause error) (context.CancelCauseFunc, *Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.real != nil || c.ended:
	case cause != nil:
		c.realizeLocked()
	default: // one whose parent has ended says what the parent says
		c.ended = c.parent.Err() == nil
	}
	heir := c.heir
	c.heir = nil
	return c.cancel, heir
}

// realizeLocked makes the real context. It is called with mu held.
func (c *Context) realizeLocked() {
	if !c.ended {
		c.real, c.cancel = context.WithCancelCause(c.ancestorLocked())
		return
	}
	// The parent must not give it another reason now.
	c.real, c.cancel = context.WithCancelCause(context.WithoutCancel(c.parent))
	c.cancel(nil)
}

// ancestorLocked returns what c is to hang on: the parent, or where nobody waits for a lazy parent, what that one would hang on. So a chain of
// lazy contexts of which only the last is waited for makes one real context. It is called with mu held.
func (c *Context) ancestorLocked() context.Context {
	if parent, ok := c.parent.(*Context); ok {
		if stem := parent.adoptChild(c); stem != nil {
			return stem
		}
	}
	return c.parent
}

// adoptChild makes child the heir of c and returns what it is to hang on, nil when it must hang on c. Mutexes are taken from a child to
// its parent and never the other way.
func (c *Context) adoptChild(child *Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.real != nil || c.ended || (c.heir != nil && c.heir != child) {
		return nil
	}
	c.heir = child
	return c.ancestorLocked()
}

// forgetChild forgets a child that has ended.
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
	defer c.mu.Unlock()
	switch {
	case c.real != nil:
		return c.real.Err()
	case c.ended:
		return context.Canceled
	}
	return c.parent.Err()
}

// Deadline implements context.Context.
func (c *Context) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// String names the context as those of package context name themselves. Without it, printing one would read what its mutex
// guards.
func (c *Context) String() string {
	if parent, ok := c.parent.(fmt.Stringer); ok {
		return parent.String() + ".WithCancel"
	}
	return fmt.Sprintf("%T.WithCancel", c.parent)
}

// Value implements context.Context. Package context finds causes this way, and contexts it may attach others to, so it has to see
// the real one.
func (c *Context) Value(key any) any {
	// The real context may hang on what is above several lazy ones.
	for own := c; own != nil; own, _ = own.parent.(*Context) {
		if own.key != nil && own.key == key {
			return own.value
		}
	}
	return c.current().Value(key)
}

func (c *Context) current() context.Context {
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
