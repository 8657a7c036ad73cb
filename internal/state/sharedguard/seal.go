package sharedguard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
)

// A reader of the store learns no ids, answers or outcomes. Ids have 128 unguessable bits. A key is
// a digest of the id, the fingerprint is digested with the id, and outcome keys derive from the id.

// KeyOf returns the storage key of an id, 64 hexadecimal digits, different for each purpose.
func KeyOf(purpose, id string) string {
	sum := sha256.Sum256([]byte("rondo " + purpose + " v1\x00" + id))
	return hex.EncodeToString(sum[:])
}

// OwnerOf returns the storage name of an owner, empty for anonymous callers.
func OwnerOf(owner string) string {
	if owner == "" {
		return ""
	}
	return KeyOf("owner", owner)
}

// bindFingerprint digests a fingerprint with the id, so that equal answers to two states differ.
func bindFingerprint(id string, fingerprint [32]byte) [32]byte {
	b := append([]byte("rondo fingerprint v1\x00"), fingerprint[:]...)
	return sha256.Sum256(append(b, id...))
}

func sealOutcome(id string, c *Claim, outcome []byte) ([]byte, error) {
	aead, err := cipherOf(id)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, outcome, boundTo(c.Print[:], c.Holder[:])), nil
}

func openOutcome(id string, found *Found) ([]byte, error) {
	aead, err := cipherOf(id)
	if err != nil {
		return nil, err
	}
	// An empty outcome is recorded, too: it must not become nil.
	return aead.Open([]byte{}, nil, found.Sealed, boundTo(found.Print, found.Holder))
}

func boundTo(print, holder []byte) []byte {
	return append(append([]byte("rondo outcome v1\x00"), print...), holder...)
}

func cipherOf(id string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(id), nil, "rondo outcome v1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// The function equal compares in constant time.
func equal(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }
