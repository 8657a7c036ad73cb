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

// A StateStore keeps the states that are too large for the wire. The client then
// carries a sealed handle of some hundred bytes instead. Without one a flow
// whose state passes the cap ends with an error.
//
// The store needs to be trusted with availability only. What it is given is
// encrypted under a key that travels in the client's handle, so that it can
// neither read nor change a state, and ids are made from the handle's randomness
// and the principal: who has not both cannot name an entry.
//
// Stores that are shared between replicas must show an entry to all of them as
// soon as Put returns. All methods may be called concurrently.
type StateStore interface {
	// Put keeps state under id at least until the time given, after which it
	// may be forgotten. An id is 64 hexadecimal characters. An id that is taken is
	// refused with an error, whatever room there is: of several calls one succeeds.
	// State is not changed afterwards and must not be kept hold of beyond the call. A
	// store without room refuses with a [*QuotaError]: it must not drop an entry that
	// is still valid. The client may then call again.
	//
	// owner is a digest of the principal, "" for all anonymous callers: a client
	// can have states stored as fast as it can send requests, so each owner gets
	// a share of the room and no more.
	Put(ctx context.Context, id, owner string, state []byte, until time.Time) error
	// Get returns what was put under id, which the caller does not change. An
	// id that is unknown or whose time is over is [ErrStateGone]; any other
	// error means that the store could not be asked.
	Get(ctx context.Context, id string) ([]byte, error)
}

// maxStoreEntries is how many states a MemoryStateStore holds by default.
const maxStoreEntries = 10_000

// maxStoreBytes is how much a MemoryStateStore holds over all of its states.
const maxStoreBytes = 64 << 20

// A MemoryStateStore is a [StateStore] for a single process. It refuses new
// states when it is full, and those of a principal that has a quarter of it.
// Anonymous callers may together use everything, or all but a quarter once
// somebody authenticates; what belongs to [protocol.LocalPrincipal] may use everything.
type MemoryStateStore struct {
	mu sync.Mutex
	// states refuses when it is full: a flow whose state is evicted is lost.
	states *quota.Store[[]byte]
}

// NewMemoryStateStore returns a store that holds at most max states,
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
