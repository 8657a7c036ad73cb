package upstream

// This file sends messages about one call in their order and in the background, so
// that a slow receiver does not hold up a connection that others use.

import (
	"context"
	"sync"
	"time"
)

const (
	// maxQueued is how many messages may wait. Those beyond it are dropped, as progress
	// and log messages may be.
	maxQueued = 64
	// finishTimeout is how long [Queue.Finish] waits.
	finishTimeout = 2 * time.Second
)

// A Queue has the messages of one call. Its zero value is empty and ready. All methods may be
// called concurrently.
type Queue struct {
	mu      sync.Mutex
	queued  []func()
	sending bool
	over    bool
	idle    chan struct{} // closed when over and nothing is being sent; nil: not over
}

// Add has send called after those before it. It does not block.
func (q *Queue) Add(send func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over || len(q.queued) >= maxQueued {
		return
	}
	q.queued = append(q.queued, send)
	if !q.sending {
		q.sending = true
		go q.sendQueued()
	}
}

func (q *Queue) sendQueued() {
	for {
		q.mu.Lock()
		if len(q.queued) == 0 {
			q.sending = false
			if q.over {
				close(q.idle)
			}
			q.mu.Unlock()
			return
		}
		send := q.queued[0]
		q.queued = q.queued[1:]
		q.mu.Unlock()
		send()
	}
}

// Finish takes no more messages and waits until those are sent that wait, until ctx ends, or
// until it would delay the result of the call for too long. It is called once.
func (q *Queue) Finish(ctx context.Context) {
	q.mu.Lock()
	q.over, q.idle = true, make(chan struct{})
	if !q.sending {
		close(q.idle)
	}
	q.mu.Unlock()
	limit := time.NewTimer(finishTimeout)
	defer limit.Stop()
	select {
	case <-q.idle:
	case <-ctx.Done():
	case <-limit.C:
	}
}
