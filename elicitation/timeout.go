package elicitation

import (
	"context"
	"sync"
	"time"
)

// A PausableTimeout is a time limit that does not run while a person is asked. Its
// Pause is an [Origin.PauseTimeout]. Its methods may be called concurrently.
type PausableTimeout struct {
	mu      sync.Mutex
	left    time.Duration // of the limit: now while paused, else at since
	since   time.Time     // when the limit last started to run
	pauses  int           // that have not ended
	timer   *time.Timer
	stopped bool // by cancel
}

// NewPausableTimeout returns a copy of ctx that ends with [context.DeadlineExceeded] as its
// cause after limit, and the limit itself. The time between a Pause and its resume does not
// count. cancel ends the context and frees its timer. A limit of 0 or less has passed at
// once.
func NewPausableTimeout(
	ctx context.Context, limit time.Duration,
) (_ context.Context, _ *PausableTimeout, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	c := &PausableTimeout{left: limit, since: time.Now()}
	c.timer = time.AfterFunc(limit, func() {
		c.mu.Lock()
		passed := !c.stopped && c.pauses == 0 && time.Since(c.since) >= c.left
		c.mu.Unlock()
		if passed {
			end(context.DeadlineExceeded)
		}
	})
	return ctx, c, func() {
		c.mu.Lock()
		c.stopped = true
		c.timer.Stop()
		c.mu.Unlock()
		end(context.Canceled)
	}
}

// Pause stops the limit until resume is called. Several pauses may overlap; the
// limit runs again when all are over. resume may be called again.
func (c *PausableTimeout) Pause() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses++; c.pauses == 1 && !c.stopped {
		c.timer.Stop()
		c.left -= time.Since(c.since)
	}
	return sync.OnceFunc(c.endPause)
}

func (c *PausableTimeout) endPause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pauses--; c.pauses == 0 && !c.stopped {
		c.since = time.Now()
		c.timer.Reset(max(c.left, 0))
	}
}
