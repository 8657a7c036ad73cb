// Package sharedguard is the part of a [store.Guard] for several replicas that does not depend
// on where claims are stored: it makes the tokens of holders, seals outcomes, limits the time
// of an operation, repeats what may not have taken effect, adopts claims whose acknowledgement
// was lost, and tells what one owner may have.
package sharedguard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// A Backend stores claims. Each method is atomic and takes effect as a whole or not at all, also
// when it returns an error. All methods may be called concurrently.
type Backend interface {
	// Claim stores a claim, or takes over a released one with the same Print. If the key is
	// taken otherwise it changes nothing and returns what it found, whatever room there is. It
	// returns a [*store.QuotaError] if there is no room.
	Claim(ctx context.Context, c *Claim) (found *Found, err error)
	// Renew begins the lease of a claim anew. It reports false if it is not held by c.Holder.
	Renew(ctx context.Context, c *Claim) (held bool, err error)
	// Commit ends a claim with a sealed outcome, or without one if it is nil or has no room.
	// It changes nothing and reports true if c.Holder has committed before, and reports false
	// if the claim is not held.
	Commit(ctx context.Context, c *Claim, sealed []byte) (held bool, err error)
	// Release releases a claim that c.Holder holds, and else changes nothing.
	Release(ctx context.Context, c *Claim) error
	// IsFinal reports whether an error would be the same at once if the call were repeated.
	IsFinal(err error) bool
}

// A Claim is a claim to be stored.
type Claim struct {
	Key    string   // names the state, 64 hexadecimal digits
	Owner  string   // names whose share it counts to, as [OwnerOf] does
	Print  [32]byte // digest of the answers and of the id
	Holder [16]byte // random
	Until  time.Time
	Keep   time.Duration // from the moment of the call until Until
}

// The kinds of stored claims.
const (
	Claimed    = 1
	Committed  = 2 // with an outcome
	Unrecorded = 3 // committed without an outcome
	Released   = 4 // the same answers may claim it again
)

// Found is a claim that is stored.
type Found struct {
	Kind    int
	Print   []byte
	Holder  []byte
	Running bool   // its lease has not run out
	Sealed  []byte // the outcome
}

// maxOutcome is the longest outcome that is recorded, in bytes. The replay of a state with a
// longer one is told that its outcome is not known.
const maxOutcome = 256 << 10

// maxUnsure is how many claims with an unknown fate a guard remembers. They come about in an
// outage, one for each request that waited for its claim at the time.
const maxUnsure = 16_384

// Timeout bounds each operation of a store, attempts on several connections included.
const Timeout = 5 * time.Second

// A Guard is a [store.Guard] on a [Backend].
type Guard struct {
	name    string // of the package, for errors
	backend Backend

	mu       sync.Mutex
	claiming map[string]struct{}    // the keys for which Claim runs
	unsure   *quota.Store[[16]byte] // holders of claims that may have been stored, by unsureKey
}

// New returns a guard whose errors begin with name.
func New(name string, backend Backend) *Guard {
	return &Guard{
		name: name, backend: backend,
		claiming: make(map[string]struct{}),
		unsure:   quota.NewStore[[16]byte](quota.StoreOptions{MaxEntries: maxUnsure, MaxBytes: -1}),
	}
}

// Claim implements [store.Guard]. It ignores the end of ctx once it has begun, because giving up
// half way could leave a claim that nobody holds. Where the store does not answer in time it
// remembers the token: the next Claim with the same answers finds its own token and holds the
// claim. No handler has run for it.
func (g *Guard) Claim(
	ctx context.Context, id, owner string, fingerprint [32]byte, until time.Time,
) (store.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: claim: %w", g.name, err)
	}
	ctx, cancel := g.limitTime(ctx)
	defer cancel()
	c := &Claim{
		Key: KeyOf("claim", id), Owner: OwnerOf(owner), Print: bindFingerprint(id, fingerprint),
		Until: until, Keep: time.Until(until),
	}
	if !g.beginClaim(c.Key) {
		return nil, &store.SpentError{Running: true}
	}
	defer g.endClaim(c.Key)
	if !g.takeUnsure(c) {
		_, _ = rand.Read(c.Holder[:]) // never fails
	}
	found, err := g.storeClaim(ctx, c)
	switch {
	case err != nil:
		if _, full := errors.AsType[*store.QuotaError](err); !full {
			g.addUnsure(c)
		}
		return nil, fmt.Errorf("%s: claim: %w", g.name, err)
	case found != nil:
		return nil, g.spentError(id, c, found)
	}
	return &heldClaim{guard: g, id: id, claim: c}, nil
}

// storeClaim stores a claim. It returns what it found if the state is another's.
func (g *Guard) storeClaim(ctx context.Context, c *Claim) (found *Found, err error) {
	err = g.retry(ctx, refusedTime, func(ctx context.Context) (err error) {
		found, err = g.backend.Claim(ctx, c)
		if err != nil || found == nil || found.Kind != Claimed ||
			!equal(found.Holder, c.Holder[:]) {
			return err
		}
		held, err := g.backend.Renew(ctx, c) // its own, stored by an attempt before
		if held {
			found = nil
		}
		return err
	})
	return found, err
}

// spentError returns the error for a state that was claimed before, with the outcome if one is
// recorded for the same answers.
func (g *Guard) spentError(id string, c *Claim, found *Found) error {
	if !equal(found.Print, c.Print[:]) {
		return &store.SpentError{}
	}
	switch found.Kind {
	case Claimed:
		return &store.SpentError{Running: found.Running, Unknown: !found.Running}
	case Released: // by another replica, since this one looked
		return &store.SpentError{Running: true}
	case Unrecorded:
		return &store.SpentError{Unknown: true}
	case Committed:
		outcome, err := openOutcome(id, found)
		if err != nil {
			return fmt.Errorf("%s: claim: recorded outcome: %w", g.name, err)
		}
		return &store.SpentError{Outcome: outcome}
	}
	return fmt.Errorf("%s: claim: malformed entry of kind %d", g.name, found.Kind)
}

// limitTime limits an operation in time and drops the cancellation of the caller.
func (g *Guard) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Timeout)
}

const (
	retryInterval = 50 * time.Millisecond // between two attempts
	// refusedTime is how long a claim waits for a store that refuses connections: nothing has run.
	refusedTime = time.Second
)

// retry calls do until it succeeds, fails for good, or ctx ends. One attempt gets half of the
// time, because a connection may hang where another would answer. A store that refuses connections
// is waited for no longer than refused.
func (g *Guard) retry(ctx context.Context, refused time.Duration,
	do func(ctx context.Context) error) error {
	began := time.Now()
	for {
		attempt, cancel := context.WithTimeout(ctx, Timeout/2)
		err := do(attempt)
		cancel()
		if err == nil || g.backend.IsFinal(err) {
			return err
		}
		if _, full := errors.AsType[*store.QuotaError](err); full {
			return err
		}
		if errors.Is(err, syscall.ECONNREFUSED) && time.Since(began) > refused ||
			waiting.Sleep(ctx, retryInterval) != nil {
			return err
		}
	}
}

// beginClaim reports whether no other Claim for the key runs. So no two of this guard can take
// one stored claim for their own.
func (g *Guard) beginClaim(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.claiming[key]; ok {
		return false
	}
	g.claiming[key] = struct{}{}
	return true
}

func (g *Guard) endClaim(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.claiming, key)
}

// unsureKey names a claim with an unknown fate: those of one state differ in the answers.
func unsureKey(c *Claim) string { return c.Key + string(c.Print[:]) }

// addUnsure remembers the holder of a claim that may have been stored.
func (g *Guard) addUnsure(c *Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsure.Put(unsureKey(c), c.Owner, c.Holder, 0, c.Until)
}

// takeUnsure gives c the holder that addUnsure remembered, and forgets it: one attempt at a time
// may adopt a claim.
func (g *Guard) takeUnsure(c *Claim) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := g.unsure.Get(unsureKey(c))
	if found == nil {
		return false
	}
	c.Holder = found.Value
	g.unsure.Remove(found)
	return true
}

// A heldClaim implements [store.Claim].
type heldClaim struct {
	guard *Guard
	id    string
	claim *Claim
}

var errNotHeld = errors.New("the claim is not held any more")

// Renew implements [store.Claim].
func (h *heldClaim) Renew(ctx context.Context) error {
	return h.change(ctx, "renew", func(ctx context.Context) (bool, error) {
		return h.guard.backend.Renew(ctx, h.claim)
	})
}

// Commit implements [store.Claim].
func (h *heldClaim) Commit(ctx context.Context, outcome []byte) error {
	var sealed []byte
	if outcome != nil && len(outcome) <= maxOutcome {
		var err error
		if sealed, err = sealOutcome(h.id, h.claim, outcome); err != nil {
			return fmt.Errorf("%s: commit: %w", h.guard.name, err)
		}
	}
	return h.change(ctx, "commit", func(ctx context.Context) (bool, error) {
		return h.guard.backend.Commit(ctx, h.claim, sealed)
	})
}

// Release implements [store.Claim].
func (h *heldClaim) Release(ctx context.Context) error {
	return h.change(ctx, "release", func(ctx context.Context) (bool, error) {
		return true, h.guard.backend.Release(ctx, h.claim)
	})
}

// change performs an operation on the claim within the time of the guard, whatever ctx does.
func (h *heldClaim) change(
	ctx context.Context, operation string, do func(context.Context) (held bool, err error),
) error {
	ctx, cancel := h.guard.limitTime(ctx)
	defer cancel()
	held := false
	err := h.guard.retry(ctx, Timeout, func(ctx context.Context) (err error) {
		held, err = do(ctx)
		return err
	})
	if err == nil && !held {
		err = errNotHeld
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", h.guard.name, operation, err)
	}
	return nil
}
