package roundtrip

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
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
	// may be forgotten. An id is 64 hexadecimal characters and is never put
	// twice; state is not changed afterwards and must not be kept hold of
	// beyond the call. A store without room refuses with an error: it must not
	// drop an entry that is still valid. The call then fails.
	//
	// owner is a digest of the principal: a client can have states stored as
	// fast as it can send requests, so that a store does well to give each owner
	// a share of its room and no more.
	Put(ctx context.Context, id, owner string, state []byte, until time.Time) error
	// Get returns what was put under id, which the caller does not change. An
	// id that is unknown or whose time is over is [ErrStateGone]; any other
	// error means that the store could not be asked.
	Get(ctx context.Context, id string) ([]byte, error)
}

// ErrStateGone is what a [StateStore] answers for an id that it does not hold,
// or no longer.
var ErrStateGone = errors.New("state store: no such state")

// DefaultMaxStoredBytes bounds one state that a [StateStore] is given. It is
// large enough for some hundred answers and small enough to be read once a
// round.
const DefaultMaxStoredBytes = 1 << 20

// MaxStoreEntries is how many states a [MemoryStateStore] holds by default.
const MaxStoreEntries = 10_000

// MaxStoreBytes is how much a [MemoryStateStore] holds over all of its states.
const MaxStoreBytes = 64 << 20

// storeShare is how many principals have to come together to fill a
// [MemoryStateStore]. Anonymous callers are one.
const storeShare = 4

// A MemoryStateStore is a [StateStore] for a single process. It refuses new
// states when it is full, and those of a principal that has a quarter of it.
type MemoryStateStore struct {
	mu      sync.Mutex
	max     int
	used    usage
	owners  map[string]usage
	entries map[string]storedState
	swept   time.Time
}

// usage is how much of a store is taken.
type usage struct{ states, bytes int }

func (u usage) plus(states, bytes int) usage { return usage{u.states + states, u.bytes + bytes} }

type storedState struct {
	data  []byte
	owner string
	until time.Time
}

// NewMemoryStateStore returns a store that holds at most max states, or
// [MaxStoreEntries] if max is 0, and never more than [MaxStoreBytes] in all.
func NewMemoryStateStore(max int) *MemoryStateStore {
	if max <= 0 {
		max = MaxStoreEntries
	}
	return &MemoryStateStore{max: max, owners: map[string]usage{}, entries: map[string]storedState{}}
}

// Put implements [StateStore].
func (s *MemoryStateStore) Put(_ context.Context, id, owner string, state []byte, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(time.Now())
	if _, ok := s.entries[id]; ok {
		return errors.New("state store: the id is taken")
	}
	all, own := s.used.plus(1, len(state)), s.owners[owner].plus(1, len(state))
	if all.states > s.max || all.bytes > MaxStoreBytes {
		return fmt.Errorf("state store: full: %d states, %d bytes", s.used.states, s.used.bytes)
	}
	if own.states > max(1, s.max/storeShare) || own.bytes > MaxStoreBytes/storeShare {
		return fmt.Errorf("state store: the principal has its share: %d states, %d bytes", own.states-1, own.bytes-len(state))
	}
	s.used, s.owners[owner] = all, own
	s.entries[id] = storedState{bytes.Clone(state), owner, until}
	return nil
}

// sweep forgets what has expired, at most once a second, so that a full store
// refuses cheaply.
func (s *MemoryStateStore) sweep(now time.Time) {
	if now.Sub(s.swept) < time.Second {
		return
	}
	s.swept = now
	for id, e := range s.entries {
		if now.Before(e.until) {
			continue
		}
		delete(s.entries, id)
		s.used = s.used.plus(-1, -len(e.data))
		if own := s.owners[e.owner].plus(-1, -len(e.data)); own.states > 0 {
			s.owners[e.owner] = own
		} else {
			delete(s.owners, e.owner)
		}
	}
}

// Get implements [StateStore].
func (s *MemoryStateStore) Get(_ context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.entries[id]
	if !ok || !time.Now().Before(e.until) {
		return nil, ErrStateGone
	}
	return e.data, nil
}
