package elicitation

import (
	"context"
	"time"
)

// Shutdown takes no more sessions, calls or questions, and waits for the
// questions that are pending. When ctx ends first they are cancelled, and their
// clients told; the error is then the cause of ctx. It may be called again. The
// bus is left open: who opened it closes it.
func (r *Router) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		if r.sweep != nil {
			r.sweep.Stop()
		}
		if r.pending == 0 {
			r.drained()
		}
	}
	r.mu.Unlock()
	var err error
	select {
	case <-r.idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
		r.cancelAll()
	}
	r.releaseVisits()
	r.flush()
	return err
}

// flush waits until nothing is pending and clients have been told of what was
// withdrawn. Each takes at most withdrawTimeout, unless its transport is deaf to
// its context; nobody waits for such a one.
func (r *Router) flush() {
	enough := time.NewTimer(busTimeout + withdrawTimeout)
	defer enough.Stop()
	select {
	case <-r.idle:
	case <-enough.C:
		return
	}
	told := make(chan struct{})
	go func() {
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

func (r *Router) cancelAll() {
	r.mu.Lock()
	waiting := make([]*entry, 0, len(r.entries))
	for _, e := range r.entries {
		waiting = append(waiting, e)
	}
	r.mu.Unlock()
	for _, e := range waiting {
		e.finish(cancelled(ByShutdown, nil))
	}
}

// Pending is how many questions are pending.
func (r *Router) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending
}
