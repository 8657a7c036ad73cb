// Package store keeps, for the servers of a fleet or for one alone, which states were used (a
// [Guard]) and the states that are too large for the wire (a [StateStore]).
package store

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/owner"
	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Guard makes states single-use: each is claimed before its answers are
// used, and remembered until it expires. Without a guard an authentic state
// may be presented again until it expires, which is fine for handlers whose
// effects can be repeated and required by the protocol's statelessness.
//
// A guard knows of states only: a request without one, whose answers are taken
// because the host accepts unsolicited ones (roundtrip.Call.AcceptUnsolicited), passes it as
// often as it is sent.
//
// Implementations shared between replicas must claim atomically. All methods
// may be called concurrently. An error refuses the request: a guard that
// cannot be asked must not let anything through.
type Guard interface {
	// Claim takes the state id for the caller until it is committed or
	// released. fingerprint identifies the answers presented with it. The
	// claim must be remembered until the time given, committed or not.
	//
	// owner is a digest of the principal, "" for all anonymous callers: a client
	// can spend states as fast as it can send requests, so each owner gets a
	// share of the room and no more. One id always comes with the same owner.
	//
	// It returns a [*SpentError] when the id was claimed before, whatever room
	// there is, unless that claim was released and had the same fingerprint, and a
	// [*QuotaError] when there is no room for another claim.
	Claim(ctx context.Context, id, owner string, fingerprint [32]byte, until time.Time) error
	// Commit records the outcome of the claim, to be handed out again to an
	// exact replay. A nil outcome says that the request ended without
	// one.
	Commit(ctx context.Context, id string, outcome []byte) error
	// Release gives the claim up to whoever presents the same answers: Claim with
	// its fingerprint succeeds once more, and any other stays refused.
	Release(ctx context.Context, id string) error
}

// MaxGuardEntries is how many unexpired states a [MemoryGuard] remembers by
// default. At the limit new claims are refused: forgetting one would let it be
// used twice. With rounds of an hour, the default, one principal may spend 33
// states a second for ever, and all together four times as many. Each takes
// about 250 bytes.
const MaxGuardEntries = 500_000

// MaxGuardBytes is how much of recorded outcomes a [MemoryGuard] keeps, over
// all of its entries. Beyond it the oldest outcomes are forgotten. Their states
// stay spent, but a replay is refused instead of getting its outcome again.
const MaxGuardBytes = 64 << 20

// A MemoryGuard is a [Guard] for a single process. One principal may use a
// quarter of its entries and bytes. Anonymous callers may together use
// everything, or all but a quarter once somebody authenticates; what belongs to
// [protocol.LocalPrincipal] may use everything.
type MemoryGuard struct {
	mu sync.Mutex
	// claims refuses when it is full: one that is evicted could be used twice.
	claims *quota.Store[claim]
}

type claimEntry = quota.Entry[claim]

// A claim is an entry of the store. Its size there is that of the outcome.
type claim struct {
	fingerprint [32]byte
	outcome     []byte // nil: none
	made        int64  // when, in nanoseconds since 1970
	ended       bool   // its request has, with an outcome or without
	released    bool   // the same answers may claim it again
}

// runningFor is how long a claim that has not been ended counts as one whose request
// is being served. That takes less, even where Await holds the request for a visit.
const runningFor = 2 * time.Minute

// NewMemoryGuard returns a guard that remembers at most max unexpired states,
// or [MaxGuardEntries] if max is 0.
func NewMemoryGuard(max int) *MemoryGuard {
	if max <= 0 {
		max = MaxGuardEntries
	}
	return &MemoryGuard{claims: quota.NewStore[claim](quota.StoreOptions{
		MaxEntries: int64(max), MaxBytes: MaxGuardBytes,
		Local: owner.Digest(protocol.LocalPrincipal()),
	})}
}

// Claim implements [Guard].
func (g *MemoryGuard) Claim(_ context.Context, id, owner string, fingerprint [32]byte,
	until time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.claims.Get(id); e != nil {
		switch {
		case e.Value.fingerprint != fingerprint:
			return &SpentError{}
		case e.Value.released:
			e.Value.released, e.Value.made = false, time.Now().UnixNano()
			return nil
		case e.Value.outcome == nil:
			running := !e.Value.ended && time.Since(time.Unix(0, e.Value.made)) < runningFor
			return &SpentError{Running: running, Unknown: !running}
		}
		return &SpentError{Outcome: e.Value.outcome}
	}
	if limit := g.claims.Put(id, owner, claim{fingerprint: fingerprint,
		made: time.Now().UnixNano()}, 0, until); limit != quota.None {
		return &QuotaError{Resource: "guard", Limit: string(limit),
			RetryAfter: g.claims.RetryAfter()}
	}
	return nil
}

// ReserveForAuthenticated leaves a quarter of the room to callers who authenticate, from now on.
// The funnel calls it where callers can; the guard learns it from the first one otherwise.
func (g *MemoryGuard) ReserveForAuthenticated() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.claims.ReserveForAuthenticated()
}

// Commit implements [Guard].
func (g *MemoryGuard) Commit(_ context.Context, id string, outcome []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.claims.Get(id)
	if e == nil {
		return errors.New("guard: commit without a claim")
	}
	e.Value.ended = true
	if e.Value.outcome != nil { // a second commit replaces the first
		g.dropOutcomeLocked(e)
	}
	if len(outcome) > 0 && g.makeRoomLocked(e, int64(len(outcome))) {
		e.Value.outcome = bytes.Clone(outcome)
	}
	return nil
}

// Release implements [Guard].
func (g *MemoryGuard) Release(_ context.Context, id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.claims.Get(id); e != nil && !e.Value.ended {
		e.Value.released = true
	}
	return nil
}

// makeRoomLocked gives e room for an outcome of some size. It forgets older
// outcomes for that: the owner's own where its share is used up. It reports false,
// and forgets nothing, where all of them would not make enough.
func (g *MemoryGuard) makeRoomLocked(e *claimEntry, size int64) bool {
	if !g.claims.CanEverResize(e, size) {
		return false
	}
	for {
		limit := g.claims.Resize(e, size)
		if limit == quota.None {
			return true
		}
		g.dropOutcomeLocked(g.claims.OldestSized(e, limit))
	}
}

// dropOutcomeLocked forgets the outcome of a claim, which stays.
func (g *MemoryGuard) dropOutcomeLocked(e *claimEntry) {
	e.Value.outcome = nil
	g.claims.Resize(e, 0)
}
