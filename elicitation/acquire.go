package elicitation

import (
	"context"
	"slices"
	"sync"
)

// maxWaitingTurns is how many calls may wait for one connection. Beyond it, a call
// would wait for longer than any client does.
const maxWaitingTurns = 100

// A turnQueue gives a connection to one call at a time, in the order of arrival. It is
// guarded by router.mu.
type turnQueue struct {
	held    bool
	waiting []chan struct{} // each is closed when its turn has come
}

// AcquireUpstream waits until no other call holds the connection and then holds it until
// release is called: with one call in flight at a time [Router.ElicitFrom] always
// knows whom to ask. Turns come in the order of arrival. The error is that of
// ctx, or an [*Error] that is [ReasonCapacity] when too many wait already, or
// [ReasonShutdown], with the time after which to try again; such a refusal is logged
// and counted as [EventRejected]. It does not keep others from using Begin without it.
//
// When a call is given up before the upstream has answered, what the upstream asks
// next may be about that one: [Router.Begin] says for how long such questions are
// refused. To avoid that close the connection and open another, with a key of its
// own.
//
//	release, err := router.AcquireUpstream(ctx, upstream)
//	if err != nil {
//		return err
//	}
//	defer release()
//	call, err := router.Begin(ctx, origin, via, upstream)
func (r *Router) AcquireUpstream(
	ctx context.Context, upstream UpstreamKey,
) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	turn, refused := r.queueTurn(upstream)
	if refused != nil {
		return nil, r.recordRejection(ctx, refused, AuditEvent{Upstream: upstream}, nil)
	}
	release = sync.OnceFunc(func() { r.passTurn(upstream) })
	select {
	case <-turn:
		return release, nil
	case <-ctx.Done():
	}
	if !r.leaveQueue(upstream, turn) { // the turn came at the same moment
		release()
	}
	return nil, context.Cause(ctx)
}

// queueTurn returns a channel that is closed when the caller's turn has come, at once
// where nobody holds the connection.
func (r *Router) queueTurn(upstream UpstreamKey) (turn chan struct{}, refused *Error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return nil, shutdownError()
	}
	turns := &r.findOrAddUpstreamLocked(upstream).turns
	turn = make(chan struct{})
	switch {
	case !turns.held:
		turns.held = true
		close(turn)
	case len(turns.waiting) >= maxWaitingTurns:
		const message = "Too many calls wait for the connection"
		return nil, retryLaterError(ReasonCapacity, message, "queue")
	default:
		turns.waiting = append(turns.waiting, turn)
	}
	return turn, nil
}

// leaveQueue gives up a turn that has not come. It reports false if it has.
func (r *Router) leaveQueue(upstream UpstreamKey, turn chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	turns := &r.upstreams[upstream].turns // it is held, so the connection is in the table
	i := slices.Index(turns.waiting, turn)
	if i < 0 {
		return false
	}
	turns.waiting = slices.Delete(turns.waiting, i, i+1)
	return true
}

// passTurn gives the connection to the call that has waited longest.
func (r *Router) passTurn(upstream UpstreamKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	turns := &r.upstreams[upstream].turns
	if len(turns.waiting) == 0 {
		turns.held = false
		r.dropIdleUpstreamLocked(upstream)
		return
	}
	close(turns.waiting[0])
	turns.waiting = slices.Delete(turns.waiting, 0, 1)
}
