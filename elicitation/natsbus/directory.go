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
)

// The directory says which replica owns which key, and which replicas are
// alive:
//
//	c.<digest of the key>   format, 1; replica, 16 bytes; random, 16 bytes
//	l.<replica>             the lease, nothing in it
//
// A claim counts as long as the key is there. When its replica has no lease
// any more, another may take the claim over.
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

// newClaim is the value of a claim, unlike any other: whose acknowledgement
// got lost knows its own again.
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

// held is a claim of this end.
type held struct {
	revision uint64
	until    time.Time
}

// checkKey holds a key against the contract of [elicitation.Bus].
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

// Claim implements [elicitation.Bus]. It ends with ctx, and after
// [Options].Timeout.
func (b *Bus) Claim(ctx context.Context, key string, ttl time.Duration) error {
	if err := b.usable(ctx, key); err != nil {
		return err
	}
	ctx, cancel := b.bound(ctx)
	defer cancel()
	value := newClaim(b.id)
	var revision uint64
	err := b.bucket.keep(ctx, func() (err error) {
		revision, err = b.claim(ctx, key, value, ttl)
		return err
	})
	if err != nil {
		return b.failure("claim", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return elicitation.ErrBusClosed
	}
	b.held[key] = held{revision, time.Now().Add(ttl)}
	return nil
}

// claim makes one attempt.
func (b *Bus) claim(ctx context.Context, key string, value []byte, ttl time.Duration) (uint64, error) {
	name := claimKey(key)
	revision, err := b.bucket.swap(ctx, name, value, 0, ttl)
	if !conflict(err) {
		return revision, err
	}
	found, err := b.bucket.get(ctx, name)
	if err != nil {
		return 0, err
	}
	if bytes.Equal(found.value, value) && !found.gone {
		return found.revision, nil
	}
	if !found.gone {
		if err := b.free(ctx, found.value); err != nil {
			return 0, err
		}
	}
	revision, err = b.bucket.swap(ctx, name, value, found.revision, ttl)
	if conflict(err) {
		return 0, errMoved
	}
	return revision, err
}

// free says whether a claim may be replaced: one's own, or that of a replica
// whose lease has ended.
func (b *Bus) free(ctx context.Context, value []byte) error {
	owner, err := ownerOf(value)
	if err != nil {
		return err
	}
	if owner == b.id {
		return nil
	}
	lease, err := b.find(ctx, leaseKey(owner))
	if err != nil {
		return err
	}
	if !lease.gone {
		return elicitation.ErrClaimed
	}
	return nil
}

// find reads a key until ctx ends, and says that it is gone only when that is
// certain: a server that does not know yet that it leads no more, or that has
// just begun to, may not have seen what is there, and goes on answering for as
// long as a second.
func (b *Bus) find(ctx context.Context, key string) (found item, err error) {
	err = b.bucket.keep(ctx, func() (err error) {
		found, err = b.bucket.get(ctx, key)
		return err
	})
	if err != nil || !found.gone {
		return found, err
	}
	revision, err := b.barrier.pass(ctx, b.renew)
	if err != nil {
		return item{}, err
	}
	err = b.bucket.keep(ctx, func() (err error) {
		found, err = b.bucket.getSince(ctx, key, revision)
		return err
	})
	return found, err
}

// owner looks up who owns a key, and the revision of the claim.
func (b *Bus) owner(ctx context.Context, key string) (id replicaID, revision uint64, err error) {
	ctx, cancel := b.bound(ctx)
	defer cancel()
	found, err := b.find(ctx, claimKey(key))
	switch {
	case err != nil:
		return id, 0, b.failure("directory", err)
	case found.gone:
		return id, 0, elicitation.ErrUnclaimed
	}
	id, err = ownerOf(found.value)
	if err != nil {
		return id, 0, b.failure("directory", err)
	}
	return id, found.revision, nil
}

// alive says whether a replica has a lease. One that cannot be asked about
// counts as alive.
func (b *Bus) alive(ctx context.Context, id replicaID) bool {
	lease, err := b.bucket.get(ctx, leaseKey(id))
	return err != nil || !lease.gone
}

// Release implements [elicitation.Bus].
func (b *Bus) Release(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, ok := b.held[key]
	if !ok || b.closed {
		return
	}
	delete(b.held, key)
	select {
	case b.releases <- release{claimKey(key), h.revision}:
	default: // it ends with its ttl
	}
}

// release is a claim that is to be taken out of the directory.
type release struct {
	key      string
	revision uint64
}

// maxReleases is how many claims may wait to be released: as many as end at
// once when a router with many questions shuts down.
const maxReleases = 1024

// work releases claims, one after the other, until the bus closes. A server
// that does not answer costs one attempt each; what is left then expires.
func (b *Bus) work() {
	for {
		select {
		case <-b.life.Done():
			return
		case r := <-b.releases:
			ctx, cancel := b.bound(b.life)
			if err := b.bucket.remove(ctx, r.key, r.revision); err != nil && b.life.Err() == nil {
				b.failed(fmt.Errorf("natsbus: release: %w", err))
			}
			cancel()
		}
	}
}
