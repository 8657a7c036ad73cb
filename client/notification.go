package client

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// A notificationReceiver is the [protocol.Back] of a request, for handlers of notifications.
type notificationReceiver struct {
	opts         *Options
	token        protocol.ID                               // progress token of the request
	progress     func(context.Context, *protocol.Progress) // nil: progress is not wanted
	subscription *subscription                             // nil without a subscription

	mu           sync.Mutex
	ended        bool     // the request has ended
	lastProgress *float64 // nil before the first
	firstErr     error    // error of the first notification that failed
}

func (c *Client) newReceiver(token protocol.ID, progress func(context.Context,
	*protocol.Progress), sub *subscription) *notificationReceiver {
	o := &c.opts
	if progress == nil && o.Log == nil && o.Notification == nil && sub == nil {
		return nil
	}
	return &notificationReceiver{opts: o, token: token, progress: progress, subscription: sub}
}

func (b *notificationReceiver) asBack() protocol.Back {
	if b == nil {
		return nil
	}
	return b
}

// stopReceiving refuses later notifications, because a peer in the same process may still hold b.
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

// Notify implements [protocol.Back]. If a handler panics, the request fails with a [*PanicError].
func (b *notificationReceiver) Notify(ctx context.Context, n *protocol.Notification) (err error) {
	b.mu.Lock()
	ended, failed := b.ended, b.firstErr
	b.mu.Unlock()
	if ended {
		return errPrefix.Errorf("the request has ended")
	}
	if failed != nil && b.subscription != nil {
		return failed // the subscription has ended; the peer may not have noticed
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

// dispatchNotification calls n's handler. It drops malformed or foreign progress.
func (b *notificationReceiver) dispatchNotification(ctx context.Context, n *protocol.Notification) {
	switch {
	case n.Method == protocol.NotifyProgress && b.progress != nil:
		p := &protocol.Progress{}
		valid := jsonx.Decode(n.Params, p) == nil && !p.Token.IsZero() && p.Token == b.token
		if valid && b.acceptProgress(p.Progress) {
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

// acceptProgress reports whether progress has increased, as basic/patterns/progress requires.
func (b *notificationReceiver) acceptProgress(progress float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lastProgress != nil && progress <= *b.lastProgress {
		return false
	}
	b.lastProgress = &progress
	return true
}
