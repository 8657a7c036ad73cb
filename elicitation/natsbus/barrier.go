package natsbus

import (
	"context"
	"time"
)

// A barrier is a write to the directory for the sake of what is read after it:
// whoever acknowledges it leads the directory, and has seen every claim that
// was acknowledged before. Those who wait for one share it, so that replies to
// questions that do not exist, which anybody may send, cost one write at a time.
type barrier struct {
	turn  chan struct{} // holds one while a write is on its way
	began time.Time     // of the last one; guarded by turn
	err   error         // of the last one; guarded by turn
}

func newBarrier() *barrier { return &barrier{turn: make(chan struct{}, 1)} }

// pass returns once a write has ended that began after the call. It waits for
// two writes at most.
func (b *barrier) pass(ctx context.Context, write func() error) error {
	came := time.Now()
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-b.turn }()
	if !b.began.After(came) {
		b.began = time.Now()
		b.err = write()
	}
	return b.err
}
