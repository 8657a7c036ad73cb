package roundtrip

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/store"
)

// handleLayout begins the plaintext of a handle; releases without a store refuse it as unknown.
const handleLayout = 0x81

// maxStoredBytes bounds a stored state: some hundred answers, fast enough to read once a round.
const maxStoredBytes = 1 << 20

const handleBytes = 32 // cannot be guessed

func (e *exchange) storeState(ctx context.Context, plaintext []byte,
	c *claims.Claims) (string, error) {
	if len(plaintext) > maxStoredBytes {
		return "", fmt.Errorf("state of %d bytes is over the limit of %d for stored states; "+
			"largest parts: %s", len(plaintext), maxStoredBytes, largestParts(c))
	}
	handle := make([]byte, 1+handleBytes)
	handle[0] = handleLayout
	rand.Read(handle[1:])
	id, box := deriveStoreKey(e.call.Principal, handle)
	data := box.Seal(nil, make([]byte, box.NonceSize()), plaintext, []byte(id))
	e.reserveRoom(e.funnel.opts.StateStore)
	if err := e.funnel.opts.StateStore.Put(ctx, id, quota.OwnerDigest(e.call.Principal), data,
		c.Expires.Add(clockSkew)); err != nil { // replicas with late clocks accept it longer
		return "", &storeError{resourceStore, "write", err}
	}
	return e.sealText(ctx, handle)
}

// loadStored returns a handle's claims. Errors other than rejections say nothing about the state.
func (e *exchange) loadStored(ctx context.Context, handle []byte) ([]byte, error) {
	states := e.funnel.opts.StateStore
	if len(handle) != 1+handleBytes || states == nil {
		return nil, &rejection{words.ReasonMalformed, claims.ErrMalformed}
	}
	id, box := deriveStoreKey(e.call.Principal, handle)
	data, err := states.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrStateGone):
		return nil, &rejection{words.ReasonGone, err}
	case err != nil:
		return nil, &storeError{resourceStore, "read", err}
	case len(data) > maxStoredBytes+box.Overhead():
		return nil, &rejection{reason: words.ReasonTooLong}
	}
	plaintext, err := box.Open(nil, make([]byte, box.NonceSize()), data, []byte(id))
	if err != nil {
		return nil, &rejection{words.ReasonTampered, err}
	}
	return plaintext, nil
}

// deriveStoreKey derives an entry's id and cipher from a handle and one principal; another
// principal finds nothing. Each key encrypts a single state, so its nonce may be zero.
func deriveStoreKey(p protocol.Principal, handle []byte) (id string, box cipher.AEAD) {
	derive := func(purpose string) []byte {
		mac := hmac.New(sha256.New, handle)
		mac.Write(quota.OwnerLabel(p, purpose))
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
