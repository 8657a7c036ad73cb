package client

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// back is the way back for one request. It is nil when nobody listens.
type back struct {
	opts     *Options
	token    protocol.ProgressToken
	progress func(context.Context, *protocol.Progress) // nil: nobody wants it
	sub      *subscription                             // nil: the request is none

	mu    sync.Mutex
	ended bool
	last  *float64 // the progress so far
	err   error    // of the first notification that failed
}

func (c *Client) newBack(token protocol.ProgressToken, progress func(context.Context, *protocol.Progress), sub *subscription) *back {
	o := &c.opts
	if progress == nil && o.Log == nil && o.Notification == nil && sub == nil {
		return nil
	}
	return &back{opts: o, token: token, progress: progress, sub: sub}
}

// peer returns b for the peer: a nil interface, not an interface of nil.
func (b *back) peer() protocol.Back {
	if b == nil {
		return nil
	}
	return b
}

// end closes the way back: a peer in the same process may still hold it.
func (b *back) end() {
	if b != nil {
		b.mu.Lock()
		b.ended = true
		b.mu.Unlock()
	}
}

func (b *back) failure() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Notify hands a notification to the handler it is for. The panic of a handler
// fails the request that it belongs to.
func (b *back) Notify(ctx context.Context, n *protocol.Notification) (err error) {
	b.mu.Lock()
	ended, failed := b.ended, b.err
	b.mu.Unlock()
	if ended {
		return errPrefix.Errorf("the request has ended")
	}
	if failed != nil && b.sub != nil {
		return failed // the subscription is over, whether the peer cares or not
	}
	if n == nil {
		return errPrefix.Errorf("nil notification")
	}
	defer func() {
		if v := recover(); v != nil {
			err = errPrefix.Errorf("%.64q: %w", n.Method, &PanicError{v, debug.Stack()})
		}
		if err != nil {
			b.mu.Lock()
			if b.err == nil {
				b.err = err
			}
			b.mu.Unlock()
		}
	}()
	if b.sub != nil {
		if taken, err := b.sub.take(ctx, n); taken {
			return err
		}
	}
	b.dispatch(ctx, n)
	return nil
}

func (b *back) dispatch(ctx context.Context, n *protocol.Notification) {
	switch {
	case n.Method == protocol.NotifyProgress && b.progress != nil:
		p := &protocol.Progress{}
		// Progress that is malformed or about another request is nobody's
		// (basic/patterns/progress).
		if jsonx.Decode(n.Params, p) == nil && !p.Token.IsZero() && p.Token == b.token && b.advances(p.Progress) {
			b.progress(ctx, p)
		}
	case n.Method == protocol.NotifyMessage && b.opts.Log != nil:
		m := &protocol.LogMessage{}
		if jsonx.Decode(n.Params, m) == nil && m.Level.Valid() {
			b.opts.Log(ctx, m)
		}
	case b.opts.Notification != nil:
		b.opts.Notification(ctx, n)
	}
}

// advances reports whether progress is more than all before it. What is not
// breaks the rules and is dropped (basic/patterns/progress).
func (b *back) advances(progress float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last != nil && progress <= *b.last {
		return false
	}
	b.last = &progress
	return true
}
