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

// A StateStore keeps states too large for the wire; the client carries a sealed handle instead.
// Without a store such a flow ends with an error.
//
// The store is trusted only with availability. States are encrypted with a key in the client's
// handle, and ids derive from handle and principal: without both nobody can name an entry.
//
// A shared store must show an entry to all replicas once Put returns. Calls may overlap.
type StateStore interface {
	// Put keeps state under id, 64 hexadecimal characters, at least until the given time. A taken
	// id is an error, even without room: of several calls one succeeds. The store must not retain
	// state. Without room it returns a [*QuotaError], and must not drop a valid entry.
	//
	// owner is a digest of the principal, "" for all anonymous callers. Each owner gets a share of
	// the room, because a client can have states stored as fast as it sends requests.
	Put(ctx context.Context, id, owner string, state []byte, until time.Time) error
	// Get returns the state under id, which the caller does not change, or [ErrStateGone] if it is
	// unknown or expired. Any other error means that the store could not be reached.
	Get(ctx context.Context, id string) ([]byte, error)
}

// Defaults of MemoryStateStore.
const (
	maxStoreEntries = 10_000
	maxStoreBytes   = 64 << 20
)

// A MemoryStateStore is a [StateStore] for a single process, with the shares of a [MemoryGuard]. It
// refuses new states when full.
type MemoryStateStore struct {
	mu sync.Mutex
	// When full, states refuses new entries: eviction would end a flow.
	states *quota.Store[[]byte]
}

// NewMemoryStateStore returns a store for at most max states, 10,000 if max is 0.
func NewMemoryStateStore(max int) *MemoryStateStore {
	if max <= 0 {
		max = maxStoreEntries
	}
	return &MemoryStateStore{states: quota.NewStore[[]byte](quota.StoreOptions{
		MaxEntries: int64(max), MaxBytes: maxStoreBytes,
		Local: quota.OwnerDigest(protocol.LocalPrincipal()),
	})}
}

// Put implements [StateStore].
func (s *MemoryStateStore) Put(_ context.Context, id, owner string, state []byte,
	until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states.Get(id) != nil {
		return errors.New("state store: the id is taken")
	}
	if limit := s.states.Put(id, owner, bytes.Clone(state), int64(len(state)),
		until); limit != quota.None {
		return &QuotaError{Resource: "store", Limit: string(limit),
			RetryAfter: s.states.RetryAfter()}
	}
	return nil
}

// ReserveForAuthenticated is like [MemoryGuard.ReserveForAuthenticated].
func (s *MemoryStateStore) ReserveForAuthenticated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states.ReserveForAuthenticated()
}

// Get implements [StateStore].
func (s *MemoryStateStore) Get(_ context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.states.Get(id); e != nil {
		return e.Value, nil
	}
	return nil, ErrStateGone
}
