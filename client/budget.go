package client

import (
	"context"
	"sync"
	"time"
)

// A budget is the time that the server may still spend on a call.
type budget struct {
	isLimited bool
	remaining time.Duration
}

// runLimited runs f with a context that ends when the budget is used up, and
// takes the time that f took from the budget. If the budget ended f, and not
// ctx, the error is a [*TimeoutError].
func (b *budget) runLimited(
	ctx context.Context, c *Client, method string, f func(context.Context) error,
) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if !b.isLimited {
		return preferClosed(ctx, f(ctx))
	}
	limited, used, cancel := c.humanClock.withTimeout(ctx, b.remaining)
	defer cancel()
	err := f(limited)
	b.remaining -= used()
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return &TimeoutError{method, c.opts.Timeout}
	}
	return preferClosed(ctx, err)
}

// A humanClock measures the time in which at least one question is open while
// requests run. A legacy server asks during a request and has to wait for the
// person, so this time does not count against the server. There is one for a
// client: an open question, whichever call it belongs to, stops the time of all
// calls. Questions of modern rounds are answered between requests.
type humanClock struct {
	mu    sync.Mutex
	open  int       // number of open questions
	since time.Time // when open last rose from 0
	total time.Duration
}

// startQuestion counts a question as open until endQuestion is called.
func (h *humanClock) startQuestion() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open++; h.open == 1 {
		h.since = time.Now()
	}
}

func (h *humanClock) endQuestion() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open--; h.open == 0 {
		h.total += time.Since(h.since)
	}
}

// hasOpenQuestion reports whether a question is open.
func (h *humanClock) hasOpenQuestion() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open > 0
}

// elapsedTime returns the total time in which questions were open.
func (h *humanClock) elapsedTime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open > 0 {
		return h.total + time.Since(h.since)
	}
	return h.total
}

// withTimeout returns a context that is cancelled, with the cause
// [context.DeadlineExceeded], after a time in which no question is open. It has no
// Deadline. The function used returns the time that has counted so far. The
// caller must call stop.
func (h *humanClock) withTimeout(
	ctx context.Context, left time.Duration,
) (_ context.Context, used func() time.Duration, stop func()) {
	// recheck is the interval at which the timer looks again while a question is
	// open.
	const recheck = 100 * time.Millisecond
	ctx, cancel := context.WithCancelCause(ctx)
	start, before := time.Now(), h.elapsedTime()
	used = func() time.Duration { return time.Since(start) - (h.elapsedTime() - before) }
	var mu sync.Mutex // the timer may fire before the variable is assigned
	var timer *time.Timer
	stopped := false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(left, func() {
		mu.Lock()
		defer mu.Unlock()
		more := left - used()
		switch {
		case more <= 0:
			cancel(context.DeadlineExceeded)
		case !stopped && h.hasOpenQuestion():
			timer.Reset(max(more, recheck))
		case !stopped:
			timer.Reset(more)
		}
	})
	return ctx, used, func() {
		cancel(nil)
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}
