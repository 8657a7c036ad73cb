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

	// purpose is in both halves of the derivation, so that a secret shared with another protocol,
	// or with a later version of this one, yields other keys.
	purpose = formatName + "/v1"

	// derivePurpose is the salt of the extraction in newSecretDeriver, whose results are secrets of
	// their own and must not be keys of tokens.
	derivePurpose = "rondo/derive/v1"

	saltSize  = 12 // first half of the token's random bytes: chooses the AES key
	nonceSize = 12 // second half: the GCM nonce under that key
	tagSize   = 16
)

// A deriver returns the AEAD of the one token whose salt it is given.
type deriver func(salt []byte) (cipher.AEAD, error)

// newDeriver computes, for each salt,
//
//	prk = HKDF-Extract(SHA-256, salt: purpose, secret)
//	key = HKDF-Expand(SHA-256, prk, info: purpose | len(id) | id | salt, 32 bytes)
//
// prk does not depend on the token and is computed here. What is left is a single HMAC, as 32 bytes
// are the first and only block of the expansion, and its keyed states are kept for the next token:
// that is worth a dozen allocations.
func newDeriver(id string, secret []byte) deriver {
	prk, err := hkdf.Extract(sha256.New, secret, []byte(purpose))
	if err != nil {
		// Only for secrets under 14 bytes, in FIPS 140-only mode.
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

// A secretDeriver returns the secret of a key for another purpose.
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

// additionalData returns what each token of a key authenticates besides its plaintext. Lengths go
// first, so that no two inputs give the same bytes.
func additionalData(id string) []byte {
	ad := append([]byte{byte(len(formatName))}, formatName...)
	ad = append(ad, formatVersion, byte(len(id)))
	return append(ad, id...)
}
