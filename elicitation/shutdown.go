package elicitation

import (
	"context"
	"sync"
	"time"
)

// Shutdown takes no more sessions, calls or questions, and waits for the
// questions that are pending. When ctx ends first they are cancelled, and their
// clients told; the error is then the cause of ctx. It returns a few seconds after
// ctx has ended, whatever a transport, an audit sink or a callback is busy with. It
// may be called again. The bus is left open: who opened it closes it.
func (r *Router) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		if r.sweep != nil {
			r.sweep.Stop()
		}
		if r.slots.pending() == 0 {
			r.drained()
		}
	}
	r.mu.Unlock()
	var err error
	var ending sync.WaitGroup
	select {
	case <-r.idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
		r.cancelAll(&ending)
	}
	r.releaseVisits()
	r.flush(&ending)
	return err
}

// flush waits until nothing is pending, what is ending has ended, and clients
// have been told of what was withdrawn. Each takes at most withdrawTimeout, unless
// its transport is deaf to its context or code of the host's does not return;
// nobody waits for such a one.
func (r *Router) flush(ending *sync.WaitGroup) {
	enough := time.NewTimer(busTimeout + withdrawTimeout)
	defer enough.Stop()
	select {
	case <-r.idle:
	case <-enough.C:
		return
	}
	told := make(chan struct{})
	go func() {
		ending.Wait()
		r.sending.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-enough.C:
	}
}

// drained says that nothing is pending any more. r.mu is held.
func (r *Router) drained() {
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// cancelAll cancels all questions at once, so that none waits for the callback or
// the audit of another. ending counts those that have not ended yet.
func (r *Router) cancelAll(ending *sync.WaitGroup) {
	r.mu.Lock()
	waiting := make([]*entry, 0, len(r.entries))
	for _, e := range r.entries {
		waiting = append(waiting, e)
	}
	r.mu.Unlock()
	for _, e := range waiting {
		ending.Go(func() {
			r.sheltered("callback", func() { e.finish(r.cancelled(ByShutdown, nil)) })
		})
	}
}

// Pending is how many questions are pending.
func (r *Router) Pending() int {
	return r.slots.pending()
}
