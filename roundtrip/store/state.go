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

// A StateStore keeps the states that are too large for the wire; the client then carries a sealed
// handle of some hundred bytes. Without a store a flow whose state is too large ends with an error.
//
// The store is trusted only with availability. States are encrypted under a key that travels in the
// client's handle, and ids are made from the handle's randomness and the principal, so that nobody
// without both can name an entry.
//
// Stores that are shared between replicas must show an entry to all of them as soon as Put returns.
// Calls may overlap.
type StateStore interface {
	// Put keeps state under id, 64 hexadecimal characters, at least until the given time. An id
	// that is taken is refused with an error, even when there is no room: of several calls one
	// succeeds. The caller does not change state afterwards, and the store must not keep it. A
	// store without room returns a [*QuotaError]: it must not drop an entry that is still valid.
	// The client may then call again.
	//
	// owner is a digest of the principal, "" for all anonymous callers. Each owner gets a share of
	// the room, because a client can have states stored as fast as it can send requests.
	Put(ctx context.Context, id, owner string, state []byte, until time.Time) error
	// Get returns what was put under id, which the caller does not change, or [ErrStateGone] for an
	// unknown or expired id. Any other error means that the store could not be reached.
	Get(ctx context.Context, id string) ([]byte, error)
}

// The default number of states in a MemoryStateStore, and the bytes of all.
const (
	maxStoreEntries = 10_000
	maxStoreBytes   = 64 << 20
)

// A MemoryStateStore is a [StateStore] for a single process, with the same shares as a
// [MemoryGuard]. It refuses new states when it is full.
type MemoryStateStore struct {
	mu sync.Mutex
	// states refuses when it is full: a flow whose state is evicted is lost.
	states *quota.Store[[]byte]
}

// NewMemoryStateStore returns a store that holds at most max states, or 10,000 if max is 0.
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

// ReserveForAuthenticated does what [MemoryGuard.ReserveForAuthenticated] does.
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
