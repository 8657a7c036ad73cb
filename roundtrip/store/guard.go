// Package store keeps, for the servers of a fleet or for one alone, which states were used (a
// [Guard]) and the states that are too large for the wire (a [StateStore]).
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
// until it expires. Without a guard an authentic state can be presented again until it expires,
// which is fine for handlers whose effects can be repeated.
//
// A guard knows only states: it does not stop a repeated request without one, whose answers are
// taken because the host accepts unsolicited ones (roundtrip.Call.AcceptUnsolicited).
//
// Implementations shared between replicas must claim atomically. Calls may overlap. An error
// refuses the request: a guard that cannot be reached must not admit anything. Package storetest
// checks an implementation against this contract.
type Guard interface {
	// Claim takes the state id for the caller, who holds it until the returned claim is committed
	// or released. fingerprint identifies the answers presented with it. The claim must be
	// remembered until the given time, whatever becomes of its holder.
	//
	// owner is a digest of the principal, "" for all anonymous callers. Each owner gets a share of
	// the room, because a client can spend states as fast as it can send requests. One id always
	// comes with the same owner.
	//
	// It returns a [*SpentError] if the id was claimed before, even when there is no room, unless
	// that claim was released and had the same fingerprint, and a [*QuotaError] if there is no room
	// for another claim.
	//
	// ctx may end during the call. If the claim was stored nevertheless, either Claim returns it,
	// or the next Claim with the same answers at this guard does.
	Claim(ctx context.Context, id, owner string, fingerprint [32]byte, until time.Time) (
		Claim, error)
}

// Lease is how long a claim counts as held, by the clock of the store, from [Guard.Claim] or from
// the last [Claim.Renew]. When it runs out, others get [SpentError.Unknown] instead of
// [SpentError.Running], and the state stays spent, because nobody knows what the holder did.
const Lease = 2 * time.Minute

// A Claim is a state that one request holds, by a token that no other claim has. Calls may overlap
// and may be repeated: a guard on a network cannot always tell whether a call took effect. They
// work after the context of the request has ended.
type Claim interface {
	// Renew restarts the lease, also one that has run out. It fails if the claim is not held any
	// more. The funnel calls it while the handler runs.
	Renew(ctx context.Context) error
	// Commit records the outcome, which an exact replay gets, whether the lease has run out or not.
	// A nil outcome means that the request ended without one. It fails if the claim is not held any
	// more, and changes nothing after a first Commit.
	Commit(ctx context.Context, outcome []byte) error
	// Release lets the same answers claim the state once more; other answers stay refused. Nothing
	// else makes a claimed state claimable. It changes nothing, and returns no error, if the claim
	// was committed or is not held any more.
	Release(ctx context.Context) error
}

const (
	// maxGuardEntries is the default limit of unexpired states. Beyond it new claims are refused:
	// a forgotten state could be used twice. With rounds of an hour, the default, one principal may
	// spend 33 states a second, and all together four times as many. Each takes about 250 bytes.
	maxGuardEntries = 500_000
	// maxGuardBytes bounds all recorded outcomes. Beyond it the oldest are forgotten.
	maxGuardBytes = 64 << 20
)

// A MemoryGuard is a [Guard] for a single process. One principal may use a quarter of its entries
// and bytes. Anonymous callers may together use everything, or all but a quarter once somebody
// authenticates; [protocol.LocalPrincipal] may use everything.
type MemoryGuard struct {
	mu sync.Mutex
	// claims refuses when it is full: one that is evicted could be used twice.
	claims *quota.Store[claim]
}

type claimEntry = quota.Entry[claim]

// A claim is an entry of the store. Its size there is that of the outcome.
type claim struct {
	fingerprint [32]byte
	outcome     []byte       // nil: none
	holder      *memoryClaim // the last one
	lease       int64        // when it runs out, in nanoseconds since 1970
	ended       bool         // its request has, with an outcome or without
	released    bool         // the same answers may claim it again
}

// A memoryClaim implements [Claim]. Its address is its token.
type memoryClaim struct {
	guard *MemoryGuard
	id    string
}

// errNotHeld is returned to holders of claims that were released or have expired.
var errNotHeld = errors.New("guard: the claim is not held any more")

// NewMemoryGuard returns a guard that remembers at most max unexpired states, or 500,000 if max is
// 0. It keeps 64 MiB of outcomes and then forgets the oldest: such a state stays spent, and its
// replay is refused instead of getting the outcome.
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

// ReserveForAuthenticated leaves a quarter of the room to callers who authenticate, from now on.
// The funnel calls it where callers can; the guard learns it from the first one otherwise.
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

// heldLocked returns the entry of a claim, nil unless it is the claim's still.
func (g *MemoryGuard) heldLocked(c *memoryClaim) *claimEntry {
	if e := g.claims.Get(c.id); e != nil && e.Value.holder == c && !e.Value.released {
		return e
	}
	return nil
}

// makeRoomLocked gives e room for an outcome of some size. It forgets older outcomes for that, only
// the owner's own if its share is used up. It reports false, and forgets nothing, if that would not
// be enough.
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
