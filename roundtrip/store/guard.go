// Package store keeps used states ([Guard]), large states ([StateStore]) and tasks ([TaskStore]):
//
//	srv, err := server.New(&server.Options{Roundtrip: roundtrip.Options{
//		Guard:      store.NewMemoryGuard(0),
//		StateStore: store.NewMemoryStateStore(0),
//	}, ...})
package store

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Guard makes states single-use: each is claimed before its answers are used, and remembered
// until it expires. Without a guard states can be replayed, which suits repeatable effects.
//
// It does not stop unsolicited answers, which come without a state
// (roundtrip.Call.AcceptUnsolicited).
//
// Guards shared between replicas must claim atomically. Calls may overlap. An error refuses the
// request: an unreachable guard must admit nothing. Package storetest tests implementations.
type Guard interface {
	// Claim takes the state id until the returned claim is committed or released. fingerprint
	// identifies the answers. Keep the claim until the given time, whatever happens to the holder.
	//
	// owner is a digest of the principal, "" for all anonymous callers, and fixed for an id. Owners
	// get shares of the room, because clients can spend states as fast as they send requests.
	//
	// It returns a [*SpentError] if the id was claimed before, even without room, unless that claim
	// was released and had the same fingerprint; a [*QuotaError] without room.
	//
	// If ctx ends during the call, a stored claim is returned now, or by the next call with the
	// same answers.
	Claim(ctx context.Context, id, owner string, fingerprint [32]byte, until time.Time) (
		Claim, error)
}

// Lease is how long a claim counts as held, by the store's clock, from [Guard.Claim] or
// [Claim.Renew]. Then others get [SpentError.Unknown], not Running, and the state stays spent.
const Lease = 2 * time.Minute

// A Claim is a state that one request holds, by a unique token. Calls may overlap, be repeated (a
// remote guard may not know whether one took effect), and come after the end of the request.
type Claim interface {
	// Renew restarts the lease, even an expired one, while the handler runs. It fails if not held.
	Renew(ctx context.Context) error
	// Commit records the outcome for exact replays, even after the lease; nil means none. It fails
	// if the claim is no longer held, and has no effect after a Commit.
	Commit(ctx context.Context, outcome []byte) error
	// Release, and nothing else, lets the same answers claim the state again; other answers stay
	// refused. It has no effect, and no error, if the claim was committed or is no longer held.
	Release(ctx context.Context) error
}

const (
	// maxGuardEntries is the default limit of unexpired states: 33 spent states a second for one
	// principal with rounds of an hour, four times as many for all. Beyond it new claims are
	// refused, since a forgotten state could be used twice. Each takes about 250 bytes.
	maxGuardEntries = 500_000
	maxGuardBytes   = 64 << 20 // of recorded outcomes; then the oldest are forgotten
)

// A MemoryGuard is a [Guard] for a single process. One principal may use a quarter of its entries
// and bytes. Anonymous callers share everything, or three quarters once somebody authenticates;
// [protocol.LocalPrincipal] may use everything.
type MemoryGuard struct {
	mu sync.Mutex
	// When full, claims refuses new entries: an evicted state could be used twice.
	claims *quota.Store[claim]
}

type claimEntry = quota.Entry[claim]

// A claim is an entry of the store, with the size of its outcome.
type claim struct {
	fingerprint [32]byte
	outcome     []byte       // nil: none
	holder      *memoryClaim // the latest
	lease       int64        // end, in nanoseconds since 1970
	ended       bool         // with an outcome or without
	released    bool         // the same answers may claim it again
}

// A memoryClaim implements [Claim]. Its address is its token.
type memoryClaim struct {
	guard *MemoryGuard
	id    string
}

// errNotHeld is for claims that were released or have expired.
var errNotHeld = errors.New("guard: the claim is no longer held")

// NewMemoryGuard returns a guard for at most max unexpired states, 500,000 if max is 0. It keeps 64
// MiB of outcomes, then forgets the oldest: such a state stays spent, and its replay is refused.
func NewMemoryGuard(max int) *MemoryGuard {
	if max <= 0 {
		max = maxGuardEntries
	}
	return &MemoryGuard{claims: quota.NewStore[claim](quota.StoreOptions{
		MaxEntries: int64(max), MaxBytes: maxGuardBytes,
		Local: quota.OwnerDigest(protocol.LocalPrincipal()),
	})}
}

// Claim implements [Guard].
func (g *MemoryGuard) Claim(_ context.Context, id, owner string, fingerprint [32]byte,
	until time.Time) (Claim, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	holder, lease := &memoryClaim{g, id}, now.Add(Lease).UnixNano()
	if e := g.claims.Get(id); e != nil {
		switch c := &e.Value; {
		case c.fingerprint != fingerprint:
			return nil, &SpentError{}
		case c.released:
			c.released, c.holder, c.lease = false, holder, lease
			return holder, nil
		case c.outcome == nil:
			running := !c.ended && now.UnixNano() < c.lease
			return nil, &SpentError{Running: running, Unknown: !running}
		default:
			return nil, &SpentError{Outcome: c.outcome}
		}
	}
	if limit := g.claims.Put(id, owner, claim{fingerprint: fingerprint, holder: holder,
		lease: lease}, 0, until); limit != quota.None {
		return nil, &QuotaError{Resource: "guard", Limit: string(limit),
			RetryAfter: g.claims.RetryAfter()}
	}
	return holder, nil
}

// ReserveForAuthenticated reserves a quarter of the room for authenticated callers, from now on.
// The funnel calls it if callers can authenticate; otherwise the first such caller triggers it.
func (g *MemoryGuard) ReserveForAuthenticated() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.claims.ReserveForAuthenticated()
}

// Renew implements [Claim].
func (c *memoryClaim) Renew(context.Context) error {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	e := c.guard.heldLocked(c)
	if e == nil || e.Value.ended {
		return errNotHeld
	}
	e.Value.lease = time.Now().Add(Lease).UnixNano()
	return nil
}

// Commit implements [Claim].
func (c *memoryClaim) Commit(_ context.Context, outcome []byte) error {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	e := c.guard.heldLocked(c)
	switch {
	case e == nil:
		return errNotHeld
	case e.Value.ended:
		return nil
	}
	e.Value.ended = true
	if len(outcome) > 0 && c.guard.makeRoomLocked(e, int64(len(outcome))) {
		e.Value.outcome = bytes.Clone(outcome)
	}
	return nil
}

// Release implements [Claim].
func (c *memoryClaim) Release(context.Context) error {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	if e := c.guard.heldLocked(c); e != nil && !e.Value.ended {
		e.Value.released = true
	}
	return nil
}

// heldLocked returns the claim's entry, or nil if it is no longer held.
func (g *MemoryGuard) heldLocked(c *memoryClaim) *claimEntry {
	if e := g.claims.Get(c.id); e != nil && e.Value.holder == c && !e.Value.released {
		return e
	}
	return nil
}

// makeRoomLocked makes room for e's outcome by forgetting older outcomes, only the owner's if its
// share is used up. If that would not suffice it reports false and forgets nothing.
func (g *MemoryGuard) makeRoomLocked(e *claimEntry, size int64) bool {
	if !g.claims.CanEverResize(e, size) {
		return false
	}
	for {
		limit := g.claims.Resize(e, size)
		if limit == quota.None {
			return true
		}
		oldest := g.claims.OldestSized(e, limit)
		oldest.Value.outcome = nil
		g.claims.Resize(oldest, 0)
	}
}
