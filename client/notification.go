package client

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// back is the way back for one request. It is nil when nobody listens.
type notificationReceiver struct {
	opts         *Options
	token        protocol.ProgressToken
	progress     func(context.Context, *protocol.Progress) // nil: nobody wants it
	subscription *subscription                             // nil: the request is none

	mu           sync.Mutex
	ended        bool
	lastProgress *float64 // the progress so far
	firstErr     error    // of the first notification that failed
}

func (c *Client) newReceiver(token protocol.ProgressToken, progress func(context.Context, *protocol.Progress), sub *subscription) *notificationReceiver {
	o := &c.opts
	if progress == nil && o.Log == nil && o.Notification == nil && sub == nil {
		return nil
	}
	return &notificationReceiver{opts: o, token: token, progress: progress, subscription: sub}
}

// peer returns b for the peer: a nil interface, not an interface of nil.
func (b *notificationReceiver) asBack() protocol.Back {
	if b == nil {
		return nil
	}
	return b
}

// end closes the way back: a peer in the same process may still hold it.
func (b *notificationReceiver) stopReceiving() {
	if b != nil {
		b.mu.Lock()
		b.ended = true
		b.mu.Unlock()
	}
}

func (b *notificationReceiver) firstError() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.firstErr
}

// Notify hands a notification to the handler it is for. The panic of a handler
// fails the request that it belongs to.
func (b *notificationReceiver) Notify(ctx context.Context, n *protocol.Notification) (err error) {
	b.mu.Lock()
	ended, failed := b.ended, b.firstErr
	b.mu.Unlock()
	if ended {
		return errPrefix.Errorf("the request has ended")
	}
	if failed != nil && b.subscription != nil {
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
			if b.firstErr == nil {
				b.firstErr = err
			}
			b.mu.Unlock()
		}
	}()
	if b.subscription != nil {
		if taken, err := b.subscription.handleNotification(ctx, n); taken {
			return err
		}
	}
	b.dispatchNotification(ctx, n)
	return nil
}

func (b *notificationReceiver) dispatchNotification(ctx context.Context, n *protocol.Notification) {
	switch {
	case n.Method == protocol.NotifyProgress && b.progress != nil:
		p := &protocol.Progress{}
		// Progress that is malformed or about another request is nobody's
		// (basic/patterns/progress).
		if jsonx.Decode(n.Params, p) == nil && !p.Token.IsZero() && p.Token == b.token && b.acceptProgress(p.Progress) {
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
func (b *notificationReceiver) acceptProgress(progress float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastProgress != nil && progress <= *b.lastProgress {
		return false
	}
	b.lastProgress = &progress
	return true
}
