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
		if r.slots.countPending() == 0 {
			r.signalIdleLocked()
		}
	}
	r.mu.Unlock()
	var err error
	var ending sync.WaitGroup
	select {
	case <-r.idle:
	case <-ctx.Done():
		err = context.Cause(ctx)
		r.cancelPending(&ending)
	}
	r.forgetAllURLs()
	r.waitForWithdrawals(&ending)
	return err
}

// waitForWithdrawals waits until nothing is pending, what is ending has ended, and clients
// have been told of what was withdrawn. Each takes at most withdrawTimeout, unless
// its transport is deaf to its context or code of the host's does not return;
// nobody waits for such a one.
func (r *Router) waitForWithdrawals(ending *sync.WaitGroup) {
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
		r.withdrawals.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-enough.C:
	}
}

// signalIdleLocked says that nothing is pending any more. r.mu is held.
func (r *Router) signalIdleLocked() {
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// cancelPending cancels all questions at once, so that none waits for the callback or
// the audit of another. ending counts those that have not ended yet.
func (r *Router) cancelPending(ending *sync.WaitGroup) {
	r.mu.Lock()
	waiting := make([]*pendingQuestion, 0, len(r.questions))
	for _, e := range r.questions {
		waiting = append(waiting, e)
	}
	r.mu.Unlock()
	for _, e := range waiting {
		ending.Go(func() {
			r.callHost("callback", func() { e.finish(r.cancelledOutcome(ByShutdown, nil)) })
		})
	}
}

// Pending is how many questions are pending.
func (r *Router) Pending() int {
	return r.slots.countPending()
}
