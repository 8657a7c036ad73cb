package roundtrip

import (
	"context"
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// cleanupTime suffices for a rollback without delaying the response for long.
const cleanupTime = 5 * time.Second

// CleanupContext returns a context for cleanup after the handler's context has ended, with the
// values of ctx. It lasts 5 s, or until the returned function is called, as it must be.
func CleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
}

// OnCommit registers fn to run after the handler has completed the flow, its result has passed all
// checks, and a [store.Guard], if any, has recorded it. It runs at most once per outcome sent to
// the client, never in a round that asks or begins a task, or after an error or error result. If a
// guard fails to record the outcome, fn still runs, as the client gets it and the state is spent.
// Functions run in order, under a [CleanupContext], before the result is sent. A panic is recovered
// and reported; the outcome stands. Outside of a round OnCommit returns [ErrNoRound].
func OnCommit(ctx context.Context, fn func(context.Context)) error {
	r := runFrom(ctx)
	if r == nil {
		return noRound(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.activeFlowLocked()
	if err != nil {
		return err
	}
	if fn == nil {
		return r.failLocked(errors.New("OnCommit: nil function"))
	}
	f.commits, r.acted = append(f.commits, fn), true
	return nil
}

// runCommits calls the functions of [OnCommit] if the flow has completed.
func (r responder) runCommits(ctx context.Context, result protocol.Result, err error) {
	if r.flow == nil || err != nil || r.flow.begins { // the task has run them
		return
	}
	switch completed := result.(type) {
	case *protocol.InputRequiredResult, *protocol.CreateTaskResult:
		return
	case *protocol.CallToolResult:
		if completed.IsError {
			return
		}
	}
	if len(r.flow.commits) == 0 || !r.beginCommits(ctx, result) {
		return
	}
	for _, fn := range r.flow.commits {
		r.callCommit(ctx, fn)
	}
}

func (r responder) callCommit(ctx context.Context, fn func(context.Context)) {
	ctx, cancel := CleanupContext(ctx)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			r.reportPanic(ctx, v)
		}
	}()
	fn(ctx)
}
