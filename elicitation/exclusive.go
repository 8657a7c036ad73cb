package elicitation

import (
	"context"
	"slices"
	"sync"
)

// maxQueue is how many calls may wait for one connection. Beyond it, a call
// would wait for longer than anybody does.
const maxQueue = 100

// A turnQueue lets one call at a time use a connection. It is guarded by router.mu.
type turnQueue struct {
	held    bool
	waiting []chan struct{} // each is closed when its turn has come
}

// Exclusive waits until nobody else holds the connection and then holds it until
// release is called: with one call in flight at a time [Router.ElicitFrom] always
// knows whom to ask. Turns come in the order of arrival. The error is that of
// ctx, or an [*Error] that is [ErrCapacity] when too many wait already, or
// [ErrShutdown], with the time after which to try again; such a refusal is logged
// and counted as [EventRejected]. It does not keep others from using Begin without it.
//
// When a call is given up before the upstream has answered, what the upstream asks
// next may be about that one: [Router.Begin] says for how long such questions are
// refused. To avoid that close the connection and open another, with a key of its
// own.
//
//	release, err := router.Exclusive(ctx, upstream)
//	if err != nil {
//		return err
//	}
//	defer release()
//	call, err := router.Begin(ctx, origin, via, upstream)
func (r *Router) Exclusive(ctx context.Context, upstream UpstreamKey) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	release = sync.OnceFunc(func() { r.passTurn(upstream) })
	r.mu.Lock()
	if r.draining {
		r.mu.Unlock()
		return nil, r.refuseTurn(upstream, r.shutdownError())
	}
	q := &r.findOrAddUpstreamLocked(upstream).queue
	if !q.held {
		q.held = true
		r.mu.Unlock()
		return release, nil
	}
	if len(q.waiting) >= maxQueue {
		r.mu.Unlock()
		return nil, r.refuseTurn(upstream, retryLaterError(ReasonCapacity, "Too many calls wait for the connection", "queue", r.opts.RetryAfter))
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	r.mu.Unlock()
	select {
	case <-turn:
		return release, nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	before := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(other chan struct{}) bool { return other == turn })
	gone := len(q.waiting) < before
	r.mu.Unlock()
	if !gone { // the turn came at the same moment
		release()
	}
	return nil, context.Cause(ctx)
}

// refuseTurn records that a call does not get the connection, as a question that
// was turned away: it cannot be asked. r.mu is not held.
func (r *Router) refuseTurn(upstream UpstreamKey, err *Error) error {
	return r.recordRejection(err, Event{Upstream: upstream}, nil)
}

// passTurn gives the connection to whoever has waited longest.
func (r *Router) passTurn(upstream UpstreamKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &r.upstreams[upstream].queue
	if len(q.waiting) == 0 {
		q.held = false
		r.dropIdleUpstreamLocked(upstream)
		return
	}
	close(q.waiting[0])
	q.waiting = slices.Delete(q.waiting, 0, 1)
}
