package roundtrip

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
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
	// beyond the call. A store without room refuses with a [*QuotaError]: it must
	// not drop an entry that is still valid. The client may then call again.
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

// DefaultMaxStoredBytes bounds one state that a [StateStore] is given. It is
// large enough for some hundred answers and small enough to be read once a
// round.
const DefaultMaxStoredBytes = 1 << 20

// MaxStoreEntries is how many states a [MemoryStateStore] holds by default.
const MaxStoreEntries = 10_000

// MaxStoreBytes is how much a [MemoryStateStore] holds over all of its states.
const MaxStoreBytes = 64 << 20

// A MemoryStateStore is a [StateStore] for a single process. It refuses new
// states when it is full, and those of a principal that has a quarter of it.
// Anonymous callers may together use everything, or all but a quarter once
// somebody authenticates; what belongs to [Local] may use everything.
type MemoryStateStore struct {
	mu     sync.Mutex
	states *quota.Store[[]byte]
}

// NewMemoryStateStore returns a store that holds at most max states, or
// [MaxStoreEntries] if max is 0, and never more than [MaxStoreBytes] in all.
func NewMemoryStateStore(max int) *MemoryStateStore {
	if max <= 0 {
		max = MaxStoreEntries
	}
	return &MemoryStateStore{states: quota.NewStore(quota.StoreOptions[[]byte]{
		MaxEntries: int64(max), MaxBytes: MaxStoreBytes, Local: Local().ownerDigest(),
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

// Get implements [StateStore].
func (s *MemoryStateStore) Get(_ context.Context, id string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.states.Get(id); e != nil {
		return e.Value, nil
	}
	return nil, ErrStateGone
}

// handleLayout begins the plaintext of a state that is a handle: what it stands
// for is in the StateStore. A release without one takes it for an unknown layout
// of claims and refuses it.
const handleLayout = 0x81

// handleBytes is the length of a handle: enough that it cannot be guessed.
const handleBytes = 32

// storeState puts claims into the store and returns the sealed handle.
func (e *exchange) storeState(ctx context.Context, plaintext []byte, c *claims) (string, error) {
	if len(plaintext) > e.funnel.opts.MaxStoredBytes {
		return "", fmt.Errorf("state of %d bytes is over the limit of %d for stored states; "+
			"largest parts: %s",
			len(plaintext), e.funnel.opts.MaxStoredBytes, c.largestParts())
	}
	handle := make([]byte, 1+handleBytes)
	handle[0] = handleLayout
	rand.Read(handle[1:])
	id, box := c.principal.deriveStoreKey(handle)
	data := box.Seal(nil, make([]byte, box.NonceSize()), plaintext, []byte(id))
	// A replica whose clock is behind accepts the state for a little longer.
	if err := e.funnel.opts.StateStore.Put(ctx, id, c.principal.ownerDigest(), data,
		c.expires.Add(clockSkew)); err != nil {
		return "", fmt.Errorf("storing the state: %w", err)
	}
	return e.sealText(ctx, handle)
}

// loadStored returns the claims that a handle refers to. A refusal is a rejection; any other
// error says nothing about the state.
func (e *exchange) loadStored(ctx context.Context, handle []byte) ([]byte, error) {
	store := e.funnel.opts.StateStore
	if len(handle) != 1+handleBytes || store == nil {
		return nil, &rejection{ReasonMalformed, errClaims}
	}
	id, box := e.call.Principal.deriveStoreKey(handle)
	data, err := store.Get(ctx, id)
	switch {
	case errors.Is(err, ErrStateGone):
		return nil, &rejection{ReasonGone, err}
	case err != nil:
		return nil, fmt.Errorf("reading the stored state: %w", err)
	case len(data) > e.funnel.opts.MaxStoredBytes+box.Overhead():
		return nil, &rejection{reason: ReasonTooLong}
	}
	plaintext, err := box.Open(nil, make([]byte, box.NonceSize()), data, []byte(id))
	if err != nil {
		return nil, &rejection{ReasonTampered, err}
	}
	return plaintext, nil
}

// storeLabel encodes a principal and a purpose, to derive keys and ids from.
func (p Principal) storeLabel(purpose string) []byte {
	label := append([]byte("rondo stored state 1 "+purpose+"\x00"), principalCode(p))
	return appendField(appendField(label, p.Issuer), p.Subject)
}

// ownerDigest identifies a principal to guards and stores, which count by it and need not know
// it. It is empty for anonymous callers, who cannot be told apart.
func (p Principal) ownerDigest() string {
	if p.Anonymous() {
		return ""
	}
	sum := sha256.Sum256(p.storeLabel("owner"))
	return hex.EncodeToString(sum[:])
}

// deriveStoreKey derives from a handle, for one principal, the id of an entry and the cipher
// that encrypts it. Another principal derives another id and finds nothing. A key encrypts one
// state ever, so its nonce may be zero.
func (p Principal) deriveStoreKey(handle []byte) (id string, box cipher.AEAD) {
	derive := func(purpose string) []byte {
		mac := hmac.New(sha256.New, handle)
		mac.Write(p.storeLabel(purpose))
		return mac.Sum(nil)
	}
	block, err := aes.NewCipher(derive("key"))
	if err == nil {
		box, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic("roundtrip: internal error: " + err.Error()) // the key has the right size
	}
	return hex.EncodeToString(derive("id")), box
}
