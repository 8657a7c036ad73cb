package client

import (
	"context"
	"time"
)

// A budget is the time that the server may still spend on a call.
type budget struct {
	isLimited bool
	remaining time.Duration
}

// runLimited runs f with a context that ends when the budget is used up, and
// takes the time that f took from the budget. If the budget ended f, and not
// ctx, the error is a [context.DeadlineExceeded] of its own.
func (b *budget) runLimited(ctx context.Context, c *Client, method string,
	f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if !b.isLimited {
		return preferClosed(ctx, f(ctx))
	}
	// A legacy server asks during a request and has to wait for the person, and a
	// transport may have to wait for a login. This time does not count. There is one
	// clock for a client: an open question, whichever call it belongs to, stops the
	// time of all calls. Questions of modern rounds are answered between requests.
	limited := c.humanClock.WithTimeout(ctx, b.remaining)
	defer limited.Release()
	err := f(limited)
	b.remaining -= limited.Used()
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return timeoutError(method, c.opts.Timeout)
	}
	return preferClosed(ctx, err)
}
