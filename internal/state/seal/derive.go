package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

const (
	formatName    = "rondo/requestState"
	formatVersion = 1

	// purpose is in both halves, so that other protocols and versions derive other keys.
	purpose = formatName + "/v1"

	derivePurpose = "rondo/derive/v1" // extraction salt of newSecretDeriver

	saltSize  = 12 // first random bytes of the token: choose the AES key
	nonceSize = 12 // the rest: GCM nonce under that key
	tagSize   = 16
)

type deriver func(salt []byte) (cipher.AEAD, error)

// newDeriver computes, for each salt,
//
//	prk = HKDF-Extract(SHA-256, salt: purpose, secret)
//	key = HKDF-Expand(SHA-256, prk, info: purpose | len(id) | id | salt, 32 bytes)
//
// prk is computed once. The rest is a single HMAC, because 32 bytes are one block; its keyed states
// are pooled, which saves a dozen allocations.
func newDeriver(id string, secret []byte) deriver {
	prk, err := hkdf.Extract(sha256.New, secret, []byte(purpose))
	if err != nil {
		// This happens only for secrets under 14 bytes, in FIPS 140-only mode.
		panic("seal: internal error: " + err.Error())
	}
	info := append([]byte(purpose), byte(len(id)))
	info = append(info, id...)

	type expander struct {
		mac hash.Hash
		key [sha256.Size]byte
	}
	pool := sync.Pool{New: func() any { return &expander{mac: hmac.New(sha256.New, prk)} }}
	firstBlock := []byte{1}

	return func(salt []byte) (cipher.AEAD, error) {
		x := pool.Get().(*expander)
		x.mac.Reset()
		x.mac.Write(info)
		x.mac.Write(salt)
		x.mac.Write(firstBlock)
		block, err := aes.NewCipher(x.mac.Sum(x.key[:0]))
		clear(x.key[:])
		pool.Put(x)
		if err != nil {
			return nil, err
		}
		return cipher.NewGCM(block)
	}
}

type secretDeriver func(purpose string) []byte

// newSecretDeriver computes, for each purpose,
//
//	prk    = HKDF-Extract(SHA-256, salt: derivePurpose, secret)
//	secret = HKDF-Expand(SHA-256, prk, info: len(purpose) | purpose | len(id) | id, 32 bytes)
func newSecretDeriver(id string, secret []byte) secretDeriver {
	prk, err := hkdf.Extract(sha256.New, secret, []byte(derivePurpose))
	if err != nil {
		panic("seal: internal error: " + err.Error()) // as in newDeriver
	}
	return func(purpose string) []byte {
		info := append([]byte{byte(len(purpose))}, purpose...)
		info = append(append(info, byte(len(id))), id...)
		derived, err := hkdf.Expand(sha256.New, prk, string(info), MinSecret)
		if err != nil {
			panic("seal: internal error: " + err.Error())
		}
		return derived
	}
}

// additionalData is authenticated by each token of a key. Length prefixes keep inputs unambiguous.
func additionalData(id string) []byte {
	ad := append([]byte{byte(len(formatName))}, formatName...)
	ad = append(ad, formatVersion, byte(len(id)))
	return append(ad, id...)
}
