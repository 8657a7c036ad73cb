package roundtrip

import (
	"context"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// renewEvery is the time between two renewals of a claim. Two of them may fail before its
// lease runs out.
const renewEvery = store.Lease / 3

// A heldClaim is the claim of an exchange with the guard, from claimState to endClaim. A timer
// renews its lease while the handler runs. A call that takes less than renewEvery never does.
type heldClaim struct {
	claim store.Claim // nil: none; only the goroutine that serves the call uses it

	mu     sync.Mutex
	timer  *time.Timer
	cancel context.CancelFunc // of the renewal under way, nil if there is none
	ended  bool
}

// holdClaim keeps the claim renewed until letGo.
func (e *exchange) holdClaim(ctx context.Context, claim store.Claim) {
	h := &e.held
	h.claim = claim
	h.mu.Lock() // the timer may fire before it is stored
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(renewEvery, func() { e.renewClaim(ctx, claim) })
}

// renewClaim renews the lease once and sets the timer again. A renewal that fails changes
// nothing for the handler: its outcome counts, lease or not.
func (e *exchange) renewClaim(ctx context.Context, claim store.Claim) {
	h := &e.held
	h.mu.Lock()
	if h.ended {
		h.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewEvery)
	defer cancel()
	h.cancel = cancel
	h.mu.Unlock()
	err := claim.Renew(ctx)
	h.mu.Lock()
	h.cancel = nil
	ended := h.ended // and with it what the renewal was for
	if !ended {
		h.timer.Reset(renewEvery)
	}
	h.mu.Unlock()
	if !ended {
		e.observeStore(context.WithoutCancel(ctx), err, resourceGuard, "renew")
	}
}

// isHeld reports whether there is a claim. The goroutine that serves the call may ask.
func (h *heldClaim) isHeld() bool { return h.claim != nil }

// letGo ends the renewals and returns the claim, nil if there is none. It does not wait for a
// renewal under way, whose guard may hang.
func (h *heldClaim) letGo() store.Claim {
	claim := h.claim
	if claim == nil {
		return nil
	}
	h.claim = nil
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.timer.Stop()
	if h.cancel != nil {
		h.cancel()
	}
	return claim
}
