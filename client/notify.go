package client

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// back is the way back for one request. It is nil when nobody listens.
type back struct {
	opts  *Options
	token protocol.ProgressToken

	mu    sync.Mutex
	ended bool
	err   error // of the first handler that panicked
}

func (c *Client) newBack(token protocol.ProgressToken) *back {
	o := &c.opts
	if o.Progress == nil && o.Log == nil && o.Notification == nil {
		return nil
	}
	return &back{opts: o, token: token}
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
	ended := b.ended
	b.mu.Unlock()
	if ended {
		return fmt.Errorf("client: the request has ended")
	}
	if n == nil {
		return fmt.Errorf("client: nil notification")
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("client: %.64q: %w", n.Method, &PanicError{v, debug.Stack()})
			b.mu.Lock()
			if b.err == nil {
				b.err = err
			}
			b.mu.Unlock()
		}
	}()
	b.dispatch(ctx, n)
	return nil
}

func (b *back) dispatch(ctx context.Context, n *protocol.Notification) {
	switch {
	case n.Method == protocol.NotifyProgress && b.opts.Progress != nil:
		p := &protocol.Progress{}
		// Progress that is malformed or about another request is nobody's
		// (basic/patterns/progress).
		if jsonx.Decode(n.Params, p) == nil && !p.Token.IsZero() && p.Token == b.token {
			b.opts.Progress(ctx, p)
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
