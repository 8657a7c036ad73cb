package natsguard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// DefaultStateBucket is where a [StateStore] keeps its states.
const DefaultStateBucket = "rondo_state"

// MaxState is the longest state that a [StateStore] takes, in bytes: twice
// what a funnel with the default settings gives it.
const MaxState = 2 * roundtrip.DefaultMaxStoredBytes

// A StateStore is a [store.StateStore] for a fleet. A state that is longer
// than a message to the server may be is kept in parts. It may be used
// concurrently. It starts no goroutines and needs no closing; the connection
// stays the caller's.
type StateStore struct {
	bucket  *bucket
	shares  *shares
	longest time.Duration
}

var _ store.StateStore = (*StateStore)(nil)

// NewStateStore returns a store that keeps its states in the bucket that opts
// names, nil for the defaults. It fails as [New] does. ctx ends the call, not the
// store.
func NewStateStore(
	ctx context.Context, js jetstream.JetStream, opts *Options,
) (*StateStore, error) {
	o, err := opts.withDefaults(DefaultStateBucket)
	if err != nil {
		return nil, fmt.Errorf("natsguard: %w", err)
	}
	b, err := openBucket(ctx, js, o)
	if err != nil {
		return nil, fmt.Errorf("natsguard: %w", err)
	}
	return &StateStore{b, newShares(b, "store", o), o.Longest}, nil
}

// The first part of a state begins with the format, 1, and the length of the whole
// state in four bytes. The other parts have no prefix.
const (
	stateFormat = 1
	statePrefix = 5
)

// Put implements [store.StateStore]. It ends with ctx, and after
// [Options].Timeout. An owner that has used up its share of the bucket gets a
// [store.QuotaError], as everybody does when the bucket is full.
func (s *StateStore) Put(
	ctx context.Context, id, owner string, state []byte, until time.Time,
) error {
	if len(state) > MaxState {
		return fmt.Errorf("natsguard: put: state of %d bytes, more than %d", len(state), MaxState)
	}
	if left := time.Until(until); left > s.longest {
		return fmt.Errorf("natsguard: put: it must be kept for %v, "+
			"longer than Options.Longest, %v", left, s.longest)
	}
	size := s.bucket.maxValueSize()
	if size <= statePrefix {
		return errors.New("natsguard: put: " +
			"the server or the bucket takes no message that is long enough")
	}
	ctx, cancel := context.WithTimeout(ctx, s.bucket.timeout)
	defer cancel()
	units := int64(1+len(state)/size) + unitsOf(len(state)) // a part has a subject and headers
	if err := s.shares.takeUnits(ctx, owner, units, until, 1); err != nil {
		return fmt.Errorf("natsguard: put: %w", err)
	}
	stored, err := s.putParts(ctx, id, state, size, until)
	if stored == 0 && isFull(err) {
		s.shares.giveUnits(owner, units, until)
	}
	return err
}

// putParts stores a state in parts of size bytes, and returns how many were stored.
func (s *StateStore) putParts(
	ctx context.Context, id string, state []byte, size int, until time.Time,
) (stored int, err error) {
	// The first part is stored last: who finds it finds all others.
	first := binary.BigEndian.AppendUint32([]byte{stateFormat}, uint32(len(state)))
	cut := min(len(state), size-statePrefix)
	first, rest := append(first, state[:cut]...), state[cut:]
	for ; len(rest) > 0; stored++ {
		cut := min(len(rest), size)
		if err := s.putPart(ctx, partKey(id, stored+1), rest[:cut], until); err != nil {
			return stored, err
		}
		rest = rest[cut:]
	}
	return stored, s.putPart(ctx, partKey(id, 0), first, until)
}

func (s *StateStore) putPart(
	ctx context.Context, key string, value []byte, until time.Time,
) error {
	_, found, err := s.bucket.storeEntry(ctx, key, value, 0, until)
	if err == nil && found != nil {
		err = errors.New("the id is taken")
	}
	if err != nil {
		return fmt.Errorf("natsguard: put: %w", s.shares.asQuotaError(err))
	}
	return nil
}

// Get implements [store.StateStore]. It ends with ctx, and after
// [Options].Timeout. [store.ErrStateGone] is certain; any other error leaves
// open whether the state is there.
func (s *StateStore) Get(ctx context.Context, id string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.bucket.timeout)
	defer cancel()
	first, err := s.getPart(ctx, partKey(id, 0))
	if err != nil {
		return nil, err
	}
	if len(first) < statePrefix || first[0] != stateFormat {
		return nil, fmt.Errorf("natsguard: get: %w", errEntry)
	}
	size := int(binary.BigEndian.Uint32(first[1:]))
	state := first[statePrefix:]
	for i := 1; len(state) < size && size <= MaxState; i++ {
		part, err := s.getPart(ctx, partKey(id, i))
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			break
		}
		state = append(state, part...)
	}
	if len(state) != size {
		return nil, fmt.Errorf("natsguard: get: %w", errEntry)
	}
	return state, nil
}

func (s *StateStore) getPart(ctx context.Context, key string) ([]byte, error) {
	found, err := s.bucket.findEntry(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("natsguard: get: %w", err)
	}
	if found.Gone {
		return nil, store.ErrStateGone
	}
	return found.Value, nil
}

// partKey returns the key at which a part of a state is stored.
func partKey(id string, part int) string {
	key := keyOf("natsguard state v1", id)
	if part > 0 {
		key += fmt.Sprint(".", part)
	}
	return key
}
