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
)

// handleLayout begins the plaintext of a state that is a handle: what it stands
// for is in the StateStore. A release without one takes it for an unknown layout
// of claims and refuses it.
const handleLayout = 0x81

// handleBytes is the length of a handle: enough that nobody guesses one.
const handleBytes = 32

// storeState puts claims into the store and returns the sealed handle.
func (p *exchange) storeState(ctx context.Context, plaintext []byte, c *claims) (string, error) {
	if len(plaintext) > p.funnel.opts.MaxStoredBytes {
		return "", fmt.Errorf("state of %d bytes is over the limit of %d for stored states; largest parts: %s",
			len(plaintext), p.funnel.opts.MaxStoredBytes, c.largestParts())
	}
	handle := make([]byte, 1+handleBytes)
	handle[0] = handleLayout
	rand.Read(handle[1:])
	id, box := c.principal.deriveStoreKey(handle)
	data := box.Seal(nil, make([]byte, box.NonceSize()), plaintext, []byte(id))
	// A replica whose clock is behind accepts the state for a little longer.
	if err := p.funnel.opts.StateStore.Put(ctx, id, c.principal.ownerDigest(), data, c.expires.Add(clockSkew)); err != nil {
		return "", fmt.Errorf("storing the state: %w", err)
	}
	return p.sealText(ctx, handle)
}

// loadStored returns the claims that a handle stands for. A refusal is a rejection;
// any other error says nothing about the state.
func (p *exchange) loadStored(ctx context.Context, handle []byte) ([]byte, error) {
	store := p.funnel.opts.StateStore
	if len(handle) != 1+handleBytes || store == nil {
		return nil, &rejection{ReasonMalformed, errClaims}
	}
	id, box := p.call.Principal.deriveStoreKey(handle)
	data, err := store.Get(ctx, id)
	switch {
	case errors.Is(err, ErrStateGone):
		return nil, &rejection{ReasonGone, err}
	case err != nil:
		return nil, fmt.Errorf("reading the stored state: %w", err)
	case len(data) > p.funnel.opts.MaxStoredBytes+box.Overhead():
		return nil, &rejection{reason: ReasonTooLong}
	}
	plaintext, err := box.Open(nil, make([]byte, box.NonceSize()), data, []byte(id))
	if err != nil {
		return nil, &rejection{ReasonTampered, err}
	}
	return plaintext, nil
}

// storeLabel is a principal as part of what is derived for one purpose.
func (p Principal) storeLabel(purpose string) []byte {
	label := append([]byte("rondo stored state 1 "+purpose+"\x00"), principalCode(p))
	return appendField(appendField(label, p.Issuer), p.Subject)
}

// ownerDigest stands for a principal where it need not be known, in what a guard or a
// store counts. Anonymous callers, who cannot be told apart, have none.
func (p Principal) ownerDigest() string {
	if p.Anonymous() {
		return ""
	}
	sum := sha256.Sum256(p.storeLabel("owner"))
	return hex.EncodeToString(sum[:])
}

// deriveStoreKey derives from a handle, for one principal, the id of an entry and the
// cipher that it is stored under. Another principal gets another id and finds
// nothing. A key encrypts one state ever, so its nonce may be zero.
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
