package roundtrip

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

const (
	// renewEvery is the time between two renewals of a claim, and renewTick is how much later one
	// may be. One of them may fail before the lease runs out.
	renewEvery = store.Lease / 3
	renewTick  = renewEvery / 4
)

// A leaseRenewer renews the claims of a funnel while their handlers run. All of them share a timer,
// so that a call that takes less than renewEvery, as nearly all do, pays for no timer of its own.
type leaseRenewer struct {
	mu      sync.Mutex
	leases  map[*exchange]lease
	timer   *time.Timer // nil before the first claim
	ticking bool        // the timer is set
}

// A lease is that of a claim that an exchange holds.
type lease struct {
	ctx    context.Context // of the call
	claim  store.Claim
	due    time.Time          // when it is renewed next
	cancel context.CancelFunc // of the renewal under way, nil if there is none
}

// holdClaim keeps the claim renewed until dropClaim.
func (e *exchange) holdClaim(ctx context.Context, claim store.Claim) {
	e.held = claim
	l := &e.funnel.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.leases = map[*exchange]lease{}
		l.timer = time.AfterFunc(renewTick, l.renewDue)
	} else if !l.ticking {
		l.timer.Reset(renewTick)
	}
	l.ticking = true
	l.leases[e] = lease{ctx: ctx, claim: claim, due: time.Now().Add(renewEvery)}
}

// renewDue begins the renewals that are due. The timer calls it until nothing is held.
func (l *leaseRenewer) renewDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for e, held := range l.leases {
		if held.cancel != nil || held.due.After(now) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(held.ctx), renewEvery)
		held.due, held.cancel = now.Add(renewEvery), cancel
		l.leases[e] = held
		go l.renewClaim(ctx, e, held)
	}
	if l.ticking = len(l.leases) > 0; l.ticking {
		l.timer.Reset(renewTick)
	}
}

// renewClaim renews the lease once. A renewal that fails changes nothing for the handler: its
// outcome counts, lease or not.
func (l *leaseRenewer) renewClaim(ctx context.Context, e *exchange, begun lease) {
	defer begun.cancel()
	err := renewSafely(ctx, begun.claim)
	l.mu.Lock()
	held, ok := l.leases[e] // no more: the renewal has lost its reason
	if held.cancel = nil; ok {
		l.leases[e] = held
	}
	l.mu.Unlock()
	if ok && err != nil {
		defer func() { _ = recover() }() // an observer that panics has no request to fail
		e.funnel.opts.Observer.Observe(context.WithoutCancel(ctx), event.StoreFailed{
			Where: e.where, Resource: resourceGuard, Operation: "renew", Err: err})
	}
}

// renewSafely renews a claim of a guard that may panic: no request is there to answer.
func renewSafely(ctx context.Context, claim store.Claim) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return claim.Renew(ctx)
}

// dropClaim ends the renewals and returns the claim, nil if there is none. It does not wait for
// a renewal under way, whose guard may hang.
func (e *exchange) dropClaim() store.Claim {
	claim := e.held
	if claim == nil {
		return nil
	}
	e.held = nil
	l := &e.funnel.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel := l.leases[e].cancel; cancel != nil {
		cancel()
	}
	delete(l.leases, e)
	return claim
}
