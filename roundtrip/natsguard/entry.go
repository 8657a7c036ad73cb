package natsguard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// What is stored under a key:
//
//	byte 0      format, 1
//	byte 1      kind: claimed, committed, or committed without an outcome
//	bytes 2-17  random, so that no two claims are alike
//	bytes 18-49 SHA-256 of id and fingerprint
//	the rest    the outcome of a committed claim, sealed
//
// Who reads the bucket learns neither ids nor answers nor outcomes: ids have
// 128 bits that cannot be guessed, the key is a digest of the id, the
// fingerprint is digested along with it, and the key that seals an outcome is
// derived from it.
const (
	entryFormat = 1

	kindClaimed   = 1
	kindCommitted = 2
	kindUnkept    = 3

	nonceSize  = 16
	headerSize = 2 + nonceSize + sha256.Size
)

var errEntry = errors.New("malformed entry")

// entry is a claim as it is stored.
type entry struct {
	kind  byte
	nonce [nonceSize]byte
	print [sha256.Size]byte
	// sealed is the outcome, of a committed claim.
	sealed []byte
}

func newEntry(id string, fingerprint [32]byte) entry {
	e := entry{kind: kindClaimed, print: boundPrint(id, fingerprint)}
	_, _ = rand.Read(e.nonce[:]) // never fails
	return e
}

func (e *entry) header() []byte {
	b := make([]byte, 0, headerSize+len(e.sealed))
	b = append(b, entryFormat, e.kind)
	b = append(b, e.nonce[:]...)
	return append(b, e.print[:]...)
}

func (e *entry) encode() []byte { return append(e.header(), e.sealed...) }

func decodeEntry(b []byte) (entry, error) {
	var e entry
	if len(b) < headerSize || b[0] != entryFormat {
		return e, errEntry
	}
	e.kind = b[1]
	copy(e.nonce[:], b[2:])
	copy(e.print[:], b[2+nonceSize:])
	e.sealed = b[headerSize:]
	switch e.kind {
	case kindCommitted:
		return e, nil
	case kindClaimed, kindUnkept:
		if len(e.sealed) == 0 {
			return e, nil
		}
	}
	return e, errEntry
}

// commit makes a claim a committed one.
func (e entry) commit(id string, outcome []byte, limit int) (entry, error) {
	e.kind = kindUnkept
	if len(outcome) > limit {
		return e, nil
	}
	e.kind = kindCommitted
	sealed, err := seal("natsguard outcome v1", id, e.header(), outcome)
	e.sealed = sealed
	return e, err
}

// outcome opens what was recorded.
func (e *entry) outcome(id string) ([]byte, error) {
	return open("natsguard outcome v1", id, e.header(), e.sealed)
}

// keyOf is the key for an id: 64 hexadecimal digits.
func keyOf(purpose, id string) string {
	sum := sha256.Sum256([]byte("rondo " + purpose + "\x00" + id))
	return hex.EncodeToString(sum[:])
}

func boundPrint(id string, fingerprint [32]byte) [32]byte {
	b := append([]byte("rondo natsguard fingerprint v1\x00"), fingerprint[:]...)
	return sha256.Sum256(append(b, id...))
}

// seal encrypts with a key that follows from the secret id. One key may seal
// twice: a commit that is repeated seals again, under another random nonce.
func seal(purpose, id string, bound, plaintext []byte) ([]byte, error) {
	aead, err := cipherOf(purpose, id)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, plaintext, bound), nil
}

func open(purpose, id string, bound, sealed []byte) ([]byte, error) {
	aead, err := cipherOf(purpose, id)
	if err != nil {
		return nil, err
	}
	// An empty outcome is an outcome: not nil.
	return aead.Open([]byte{}, nil, sealed, bound)
}

func cipherOf(purpose, id string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(id), nil, "rondo "+purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
