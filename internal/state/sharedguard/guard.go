// Package sharedguard is the storage-independent part of a [store.Guard] for several replicas: it
// creates holder tokens, seals outcomes, limits and retries operations, adopts claims whose
// acknowledgement was lost, and limits the shares of owners.
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

// A Backend stores claims. Methods are atomic, even on error, and may be called concurrently.
type Backend interface {
	// Claim stores a claim, or takes over a released one with the same Print. If the key is taken
	// otherwise, it changes nothing and returns what it found, even if there is no room. It returns
	// a [*store.QuotaError] if there is no room.
	Claim(ctx context.Context, c *Claim) (found *Found, err error)
	// Renew restarts a claim's lease, or returns false if c.Holder does not hold it.
	Renew(ctx context.Context, c *Claim) (held bool, err error)
	// Commit ends a claim with a sealed outcome, or without one if it is nil or too large. It
	// returns false if the claim is not held, and true, as a no-op, if c.Holder has committed.
	Commit(ctx context.Context, c *Claim, sealed []byte) (held bool, err error)
	// Release releases a claim if c.Holder holds it.
	Release(ctx context.Context, c *Claim) error
	// IsFinal reports whether retrying after an error is useless.
	IsFinal(err error) bool
}

type Claim struct {
	Key    string   // of the state, 64 hexadecimal digits
	Owner  string   // whose share it counts against, see [OwnerOf]
	Print  [32]byte // digest of the answers and the id
	Holder [16]byte // random
	Until  time.Time
	Keep   time.Duration // from the call until Until
}

const (
	Claimed    = 1
	Committed  = 2 // with an outcome
	Unrecorded = 3 // without an outcome
	Released   = 4 // the same answers may claim it again
)

type Found struct {
	Kind    int
	Print   []byte
	Holder  []byte
	Running bool   // its lease has not expired
	Sealed  []byte // the outcome
}

// maxOutcome is the longest recorded outcome, in bytes; replays of longer outcomes get an error.
const maxOutcome = 256 << 10

// maxUnsure bounds claims of unknown fate. In an outage each waiting request adds one.
const maxUnsure = 16_384

// Timeout bounds each store operation, with all attempts.
const Timeout = 5 * time.Second

// A Guard is a [store.Guard] on a [Backend].
type Guard struct {
	name    string // package name, for errors
	backend Backend

	mu       sync.Mutex
	claiming map[string]struct{}    // keys with a running Claim
	unsure   *quota.Store[[16]byte] // possible holders, by unsureKey
}

// New returns a guard whose errors begin with name.
func New(name string, backend Backend) *Guard {
	return &Guard{
		name: name, backend: backend,
		claiming: make(map[string]struct{}),
		unsure:   quota.NewStore[[16]byte](quota.StoreOptions{MaxEntries: maxUnsure, MaxBytes: -1}),
	}
}

// Claim implements [store.Guard]. Once begun it ignores the end of ctx, as giving up could leave a
// claim without holder. If the store does not answer in time, Claim remembers the token: the next
// Claim with the same answers recognizes it and holds the claim. No handler has run for it.
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

// storeClaim stores a claim. It returns the other claim if the state is taken.
func (g *Guard) storeClaim(ctx context.Context, c *Claim) (found *Found, err error) {
	err = g.retry(ctx, refusedTime, func(ctx context.Context) (err error) {
		found, err = g.backend.Claim(ctx, c)
		if err != nil || found == nil || found.Kind != Claimed ||
			!equal(found.Holder, c.Holder[:]) {
			return err
		}
		held, err := g.backend.Renew(ctx, c) // stored by an earlier attempt
		if held {
			found = nil
		}
		return err
	})
	return found, err
}

// spentError returns the error for a claimed state. For equal answers it has the recorded outcome.
func (g *Guard) spentError(id string, c *Claim, found *Found) error {
	if !equal(found.Print, c.Print[:]) {
		return &store.SpentError{}
	}
	switch found.Kind {
	case Claimed:
		return &store.SpentError{Running: found.Running, Unknown: !found.Running}
	case Released: // by another replica meanwhile
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

func (g *Guard) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Timeout)
}

const (
	retryInterval = 50 * time.Millisecond // between attempts
	refusedTime   = time.Second           // while a store refuses connections: nothing has run
)

// retry calls the function do until it succeeds, fails for good, or ctx ends. An attempt gets half
// of the time, because one connection may hang where another answers. A store that refuses
// connections is retried for at most the time refused.
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

// beginClaim reserves a key, so that no two calls of Claim adopt one stored claim.
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

// unsureKey names a claim of unknown fate: its answers distinguish it from others of the state.
func unsureKey(c *Claim) string { return c.Key + string(c.Print[:]) }

func (g *Guard) addUnsure(c *Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsure.Put(unsureKey(c), c.Owner, c.Holder, 0, c.Until)
}

// takeUnsure moves the holder remembered by addUnsure to c: only one attempt may adopt a claim.
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

// change performs an operation on the claim within Timeout, whatever ctx does.
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
