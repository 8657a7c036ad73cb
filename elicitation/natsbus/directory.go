package natsbus

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/natskv"
)

// The directory says which replica owns which key, and which replicas are
// alive:
//
//	c.<digest of the key>   format, 1; replica, 16 bytes; random, 16 bytes
//	l.<replica>             the lease, nothing in it
//	h.<replica>             the name of the server that the replica is connected to
//
// A claim counts as long as its key is there. Another replica may take it over
// when the lease of its replica has ended.
const (
	claimFormat = 1
	idSize      = 16
	claimSize   = 1 + 2*idSize
)

// replicaID names one end of the bus, for as long as it is open.
type replicaID [idSize]byte

func newReplicaID() (id replicaID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

func (id replicaID) String() string { return hex.EncodeToString(id[:]) }

func claimKey(key string) string {
	sum := sha256.Sum256([]byte("rondo natsbus claim v1\x00" + key))
	return "c." + hex.EncodeToString(sum[:])
}

func leaseKey(id replicaID) string { return "l." + id.String() }

// newClaim returns the value of a claim. It differs from all others, so that a
// replica recognizes its own when the acknowledgement was lost.
func newClaim(id replicaID) []byte {
	value := append([]byte{claimFormat}, id[:]...)
	nonce := newReplicaID()
	return append(value, nonce[:]...)
}

func ownerOf(value []byte) (replicaID, error) {
	if len(value) != claimSize || value[0] != claimFormat {
		return replicaID{}, errors.New("malformed claim")
	}
	return replicaID(value[1 : 1+idSize]), nil
}

// checkKey checks a key against the contract of [elicitation.Bus].
func checkKey(key string) error {
	if key == "" || len(key) > 64 {
		return fmt.Errorf("a key has %d bytes, want 1 to 64", len(key))
	}
	for _, c := range []byte(key) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' {
			return errors.New("a key has other characters than lower-case letters, digits and dots")
		}
	}
	return nil
}

// A heldClaim is a claim of this replica.
type heldClaim struct {
	revision uint64
	until    time.Time
}

// Claim implements [elicitation.Bus]. It ends with ctx, and after
// [Options].Timeout.
func (b *Bus) Claim(ctx context.Context, key string, ttl time.Duration) error {
	if err := b.checkCall(ctx, key); err != nil {
		return err
	}
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	value := newClaim(b.id)
	var revision uint64
	err := b.bucket.Retry(ctx, func() (err error) {
		revision, err = b.tryClaim(ctx, key, value, ttl)
		return err
	})
	if err != nil {
		return b.wrapError("claim", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return elicitation.ErrBusClosed
	}
	b.held[key] = heldClaim{revision, time.Now().Add(ttl)}
	return nil
}

// tryClaim makes one attempt at storing a claim. Where there is one already it
// replaces it, if it may.
func (b *Bus) tryClaim(
	ctx context.Context, key string, value []byte, ttl time.Duration,
) (revision uint64, err error) {
	name := claimKey(key)
	revision, err = b.bucket.PutAfter(ctx, name, value, 0, ttl)
	if !natskv.IsConflict(err) {
		return revision, err
	}
	found, err := b.bucket.Get(ctx, name)
	if err != nil {
		return 0, err
	}
	if bytes.Equal(found.Value, value) && !found.Gone {
		return found.Revision, nil // of an attempt whose acknowledgement was lost
	}
	if !found.Gone {
		if err := b.checkReplaceable(ctx, found.Value); err != nil {
			return 0, err
		}
	}
	revision, err = b.bucket.PutAfter(ctx, name, value, found.Revision, ttl)
	if natskv.IsConflict(err) {
		return 0, natskv.ErrChanged
	}
	return revision, err
}

// checkReplaceable returns an error unless a claim may be replaced: it is this
// replica's own, or the lease of its replica has ended for certain.
func (b *Bus) checkReplaceable(ctx context.Context, value []byte) error {
	owner, err := ownerOf(value)
	if err != nil {
		return err
	}
	if owner == b.id {
		return nil
	}
	lease, err := b.findEntry(ctx, leaseKey(owner))
	if err != nil {
		return err
	}
	if !lease.Gone {
		return elicitation.ErrClaimed
	}
	return nil
}

// findEntry reads a key of the directory and retries until ctx ends. It returns
// an entry that is gone only if that is certain. For that the lease is written,
// which has to be renewed anyway.
func (b *Bus) findEntry(ctx context.Context, key string) (natskv.Entry, error) {
	return b.bucket.Find(ctx, key, func(ctx context.Context) (uint64, error) {
		return b.marks.share(ctx, b.renewLease)
	})
}

// shared lets concurrent callers share an operation on the directory. Anybody may send
// replies to questions that do not exist, and many arrive for a replica that has died;
// without it each of them would cost one.
type shared[T any] struct {
	turn   chan struct{} // holds one while an operation is under way
	began  time.Time     // when the last one that succeeded began; guarded by turn
	result T             // of that one; guarded by turn
}

func newShared[T any]() *shared[T] { return &shared[T]{turn: make(chan struct{}, 1)} }

// share returns the result of an operation that began after the call. It waits for
// two of them at most, and until ctx ends. Only success is shared: an operation may fail
// because the context of its caller ended.
func (s *shared[T]) share(
	ctx context.Context, operation func(context.Context) (T, error),
) (result T, err error) {
	called := time.Now()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return result, ctx.Err()
	}
	defer func() { <-s.turn }()
	if !s.began.After(called) {
		began := time.Now()
		result, err := operation(ctx)
		if err != nil {
			return result, err
		}
		s.began, s.result = began, result
	}
	return s.result, nil
}

// findOwner looks up which replica owns a key, and the revision of its claim.
func (b *Bus) findOwner(
	ctx context.Context, key string,
) (id replicaID, revision uint64, err error) {
	ctx, cancel := b.withTimeout(ctx)
	defer cancel()
	found, err := b.findEntry(ctx, claimKey(key))
	switch {
	case err != nil:
		return id, 0, b.wrapError("directory", err)
	case found.Gone:
		return id, 0, elicitation.ErrNoOwner
	}
	id, err = ownerOf(found.Value)
	if err != nil {
		return id, 0, b.wrapError("directory", err)
	}
	return id, found.Revision, nil
}

// hasLease reports whether a replica has a lease. It makes one attempt, and if
// that fails the replica counts as alive.
func (b *Bus) hasLease(ctx context.Context, id replicaID) bool {
	lease, err := b.bucket.Get(ctx, leaseKey(id))
	return err != nil || !lease.Gone
}

// Release implements [elicitation.Bus]. A goroutine of the bus removes the claim
// from the directory.
func (b *Bus) Release(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.held[key]
	if !ok || b.closed {
		return
	}
	delete(b.held, key)
	b.queueRelease(claimKey(key), h.revision)
}

// release is a claim that is to be removed from the directory.
type release struct {
	key      string
	revision uint64
}

// maxReleases is how many claims may wait to be removed: as many as end at once
// when a router with many questions shuts down.
const maxReleases = 1024

// queueRelease has a claim removed. If the queue is full the claim ends with its
// time to live.
func (b *Bus) queueRelease(key string, revision uint64) {
	select {
	case b.releases <- release{key, revision}:
	default:
	}
}

// removeReleased is a goroutine. It removes released claims one after the other
// until the bus closes. If the server does not answer, each costs one attempt and
// ends with its time to live.
func (b *Bus) removeReleased() {
	for {
		select {
		case <-b.life.Done():
			return
		case r := <-b.releases:
			if err := b.removeClaim(r); err != nil && b.life.Err() == nil {
				b.reportFailure(fmt.Errorf("natsbus: release: %w", err))
			}
		}
	}
}

func (b *Bus) removeClaim(r release) error {
	ctx, cancel := context.WithTimeout(b.life, b.bucket.AttemptTimeout())
	defer cancel()
	err := b.bucket.Remove(ctx, r.key, r.revision)
	if natskv.IsConflict(err) {
		return nil // another replica has taken the claim over
	}
	return err
}
