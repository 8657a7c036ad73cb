package roundtrip

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Guard makes states single-use: each is claimed before its answers are
// used, and remembered until it expires. Without a guard an authentic state
// may be presented again until it expires, which is fine for handlers whose
// effects can be repeated and required by the protocol's statelessness.
//
// A guard knows of states only: a request without one, whose answers are taken
// because the host accepts unsolicited ones ([Call].AcceptCold), passes it as
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
	// It returns a [*SpentError] when the id was claimed before.
	Claim(ctx context.Context, id string, fingerprint [32]byte, until time.Time) error
	// Commit records the outcome of the claim, to be handed out again to an
	// exact replay.
	Commit(ctx context.Context, id string, outcome []byte) error
	// Release gives the claim up: the handler never started.
	Release(ctx context.Context, id string) error
}

// A SpentError says that a state has been claimed before.
type SpentError struct {
	// Outcome is what was recorded for it, nil while the first claim is still
	// running or when the answers presented now differ from those then.
	Outcome []byte
}

// Error says that the state was used.
func (e *SpentError) Error() string { return "request state has been used" }

// MaxGuardEntries is how many unexpired states a [MemoryGuard] remembers by
// default. At the limit new claims are refused: forgetting one would let it be
// used twice.
const MaxGuardEntries = 100_000

// MaxGuardBytes is how much of recorded outcomes a [MemoryGuard] keeps, over
// all of its entries. Beyond it states stay spent, but a replay is refused
// instead of getting its outcome again.
const MaxGuardBytes = 64 << 20

// A MemoryGuard is a [Guard] for a single process.
type MemoryGuard struct {
	mu      sync.Mutex
	max     int
	bytes   int // of all recorded outcomes
	entries map[string]*claim
	swept   time.Time
}

type claim struct {
	fingerprint [32]byte
	until       time.Time
	outcome     []byte
}

// NewMemoryGuard returns a guard that remembers at most max unexpired states,
// or [MaxGuardEntries] if max is 0.
func NewMemoryGuard(max int) *MemoryGuard {
	if max <= 0 {
		max = MaxGuardEntries
	}
	return &MemoryGuard{max: max, entries: map[string]*claim{}}
}

// Claim implements [Guard].
func (g *MemoryGuard) Claim(_ context.Context, id string, fingerprint [32]byte, until time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.sweep(now)
	if c, ok := g.entries[id]; ok && now.Before(c.until) {
		if c.fingerprint != fingerprint {
			return &SpentError{}
		}
		return &SpentError{Outcome: c.outcome}
	}
	g.forget(id)
	if len(g.entries) >= g.max {
		return errors.New("guard: too many unexpired states are remembered")
	}
	g.entries[id] = &claim{fingerprint: fingerprint, until: until}
	return nil
}

// sweep forgets expired claims, at most once a second so that claims stay
// cheap even when there is no room.
func (g *MemoryGuard) sweep(now time.Time) {
	if now.Sub(g.swept) < time.Second {
		return
	}
	g.swept = now
	for id, c := range g.entries {
		if !now.Before(c.until) {
			g.forget(id)
		}
	}
}

// forget drops an entry, if there is one.
func (g *MemoryGuard) forget(id string) {
	if c, ok := g.entries[id]; ok {
		g.bytes -= len(c.outcome)
		delete(g.entries, id)
	}
}

// Commit implements [Guard].
func (g *MemoryGuard) Commit(_ context.Context, id string, outcome []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.entries[id]
	if !ok {
		return errors.New("guard: commit without a claim")
	}
	if g.bytes-len(c.outcome)+len(outcome) > MaxGuardBytes {
		return nil
	}
	g.bytes += len(outcome) - len(c.outcome)
	c.outcome = append([]byte{}, outcome...)
	return nil
}

// Release implements [Guard].
func (g *MemoryGuard) Release(_ context.Context, id string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c, ok := g.entries[id]; ok && c.outcome == nil {
		g.forget(id)
	}
	return nil
}
