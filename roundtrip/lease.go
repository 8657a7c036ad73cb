package roundtrip

import (
	"context"
	"sync"
	"time"

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
	holders map[*exchange]struct{}
	timer   *time.Timer // nil before the first claim
	ticking bool        // the timer is set
}

// A heldClaim is the claim of an exchange with the guard, from claimState to endClaim.
type heldClaim struct {
	claim store.Claim // nil: none; only the goroutine that serves the call uses it

	// The mutex of the renewer guards the other fields.
	ctx    context.Context
	due    time.Time          // when the lease is renewed next
	cancel context.CancelFunc // of the renewal under way, nil if there is none
}

// holdClaim keeps the claim renewed until letGoOfClaim.
func (e *exchange) holdClaim(ctx context.Context, claim store.Claim) {
	e.held.claim = claim
	l := &e.funnel.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	e.held.ctx, e.held.due = ctx, time.Now().Add(renewEvery)
	if l.holders == nil {
		l.holders = map[*exchange]struct{}{}
		l.timer = time.AfterFunc(renewTick, l.renewDue)
		l.ticking = true
	}
	l.holders[e] = struct{}{}
	if !l.ticking {
		l.timer.Reset(renewTick)
		l.ticking = true
	}
}

// renewDue begins the renewals that are due. The timer calls it until nothing is held.
func (l *leaseRenewer) renewDue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for e := range l.holders {
		if h := &e.held; !h.due.After(now) && h.cancel == nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), renewEvery)
			h.due, h.cancel = now.Add(renewEvery), cancel
			go l.renewClaim(ctx, e, h.claim)
		}
	}
	if l.ticking = len(l.holders) > 0; l.ticking {
		l.timer.Reset(renewTick)
	}
}

// renewClaim renews the lease once. A renewal that fails changes nothing for the handler: its
// outcome counts, lease or not.
func (l *leaseRenewer) renewClaim(ctx context.Context, e *exchange, claim store.Claim) {
	err := claim.Renew(ctx)
	l.mu.Lock()
	e.held.cancel()
	e.held.cancel = nil
	_, held := l.holders[e] // and with it a reason for the renewal
	l.mu.Unlock()
	if held {
		e.observeStore(context.WithoutCancel(ctx), err, resourceGuard, "renew")
	}
}

// isHeld reports whether there is a claim. The goroutine that serves the call may ask.
func (h *heldClaim) isHeld() bool { return h.claim != nil }

// letGoOfClaim ends the renewals and returns the claim, nil if there is none. It does not wait for
// a renewal under way, whose guard may hang.
func (e *exchange) letGoOfClaim() store.Claim {
	claim := e.held.claim
	if claim == nil {
		return nil
	}
	l := &e.funnel.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	e.held.claim = nil
	delete(l.holders, e)
	if e.held.cancel != nil {
		e.held.cancel()
	}
	return claim
}
