package client

import (
	"context"
	"sync"
	"time"
)

// A humanClock measures the time during which people are being asked while a
// request runs, as servers of legacy revisions do. Such a server cannot do
// anything about how long it takes.
type humanClock struct {
	mu    sync.Mutex
	open  int       // questions
	since time.Time // when open last rose from 0
	total time.Duration
}

// enter notes that a question is put to somebody, until leave is called.
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

// busy reports whether somebody is being asked.
func (h *humanClock) hasOpenQuestion() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open > 0
}

// elapsed returns the time in which somebody was being asked, so far.
func (h *humanClock) elapsedTime() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open > 0 {
		return h.total + time.Since(h.since)
	}
	return h.total
}

// limit is context.WithTimeout, less the time in which somebody is being asked.
// Used returns the time that counts.
func (h *humanClock) withTimeout(ctx context.Context, left time.Duration) (_ context.Context, used func() time.Duration, stop func()) {
	// How often it is looked whether people have answered, while they have not.
	const glance = 100 * time.Millisecond
	ctx, cancel := context.WithCancelCause(ctx)
	start, before := time.Now(), h.elapsedTime()
	used = func() time.Duration { return time.Since(start) - (h.elapsedTime() - before) }
	var mu sync.Mutex // the timer may fire before it is assigned
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
			timer.Reset(max(more, glance))
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
