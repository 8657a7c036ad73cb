package natsbus

import (
	"context"
	"time"
)

// A barrier is a write to the directory for the sake of what is read after it:
// whoever acknowledges it leads the directory, and every claim that was
// acknowledged before has a lower revision. Those who wait for one share it, so
// that replies to questions that do not exist, which anybody may send, cost one
// write at a time.
type barrier struct {
	turn     chan struct{} // holds one while a write is on its way
	began    time.Time     // of the last one that succeeded; guarded by turn
	revision uint64        // of the same; guarded by turn
}

func newBarrier() *barrier { return &barrier{turn: make(chan struct{}, 1)} }

// pass returns the revision of a write that began after the call. It waits for
// two writes at most, and no longer than ctx. Only success is shared: a write
// that fails may have done so because the context of its caller ended.
func (b *barrier) pass(ctx context.Context, write func(context.Context) (uint64, error)) (uint64, error) {
	came := time.Now()
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-b.turn }()
	if !b.began.After(came) {
		began := time.Now()
		revision, err := write(ctx)
		if err != nil {
			return 0, err
		}
		b.began, b.revision = began, revision
	}
	return b.revision, nil
}
