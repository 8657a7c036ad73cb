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
	// One renewal, due within renewTick of renewEvery, may fail before the lease expires.
	renewEvery = store.Lease / 3
	renewTick  = renewEvery / 4
)

// A leaseRenewer renews the claims of a funnel while their handlers run, with one shared timer:
// calls shorter than renewEvery, nearly all, need no timer of their own.
type leaseRenewer struct {
	mu      sync.Mutex
	leases  map[*exchange]lease
	timer   *time.Timer // nil before the first claim
	ticking bool        // the timer is set
}

// A lease is the claim of an exchange.
type lease struct {
	ctx    context.Context // the call's
	claim  store.Claim
	due    time.Time          // the next renewal
	cancel context.CancelFunc // the renewal in flight, or nil
}

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

// renewDue starts the renewals that are due, until no claim is held.
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

// renewClaim renews the lease once. A failure does not affect the handler.
func (l *leaseRenewer) renewClaim(ctx context.Context, e *exchange, begun lease) {
	defer begun.cancel()
	err := renewSafely(ctx, begun.claim)
	l.mu.Lock()
	held, ok := l.leases[e] // not ok: the claim has ended
	if held.cancel = nil; ok {
		l.leases[e] = held
	}
	l.mu.Unlock()
	if ok && err != nil {
		defer func() { _ = recover() }() // an observer may panic; no request is to fail
		e.funnel.opts.Observer.Observe(context.WithoutCancel(ctx), event.StoreFailed{
			Where: e.where, Resource: resourceGuard, Operation: "renew", Err: err})
	}
}

// renewSafely recovers a panic of the guard: no request waits for it.
func renewSafely(ctx context.Context, claim store.Claim) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return claim.Renew(ctx)
}

// dropClaim ends renewals and returns the claim, or nil. A renewal in flight may hang: do not wait.
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
