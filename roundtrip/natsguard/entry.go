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
//	byte 1      kind: claimed, committed, committed without an
//	            outcome, or released
//	bytes 2-17  random, so that no two claims are alike
//	bytes 18-49 SHA-256 of id and fingerprint
//	the rest    the outcome of a committed claim, sealed
//
// A reader of the bucket learns no ids, answers or outcomes. Ids have 128 bits that
// cannot be guessed. The bucket's key is a digest of the id, the fingerprint is
// digested together with the id, and the key that seals an outcome is derived from
// the id.
const (
	entryFormat = 1

	kindClaimed    = 1
	kindCommitted  = 2
	kindUnrecorded = 3 // committed without an outcome
	kindReleased   = 4 // the same answers may claim it again

	nonceSize  = 16
	headerSize = 2 + nonceSize + sha256.Size
)

var errEntry = errors.New("malformed entry")

// entry is a claim as it is stored.
type entry struct {
	kind  byte
	nonce [nonceSize]byte
	print [sha256.Size]byte
	// sealed is the encrypted outcome of a committed claim.
	sealed []byte
}

func newEntry(id string, fingerprint [32]byte) entry {
	e := entry{kind: kindClaimed, print: bindFingerprint(id, fingerprint)}
	_, _ = rand.Read(e.nonce[:]) // never fails
	return e
}

func (e *entry) encodeHeader() []byte {
	b := make([]byte, 0, headerSize+len(e.sealed))
	b = append(b, entryFormat, e.kind)
	b = append(b, e.nonce[:]...)
	return append(b, e.print[:]...)
}

func (e *entry) encode() []byte { return append(e.encodeHeader(), e.sealed...) }

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
	case kindClaimed, kindUnrecorded, kindReleased:
		if len(e.sealed) == 0 {
			return e, nil
		}
	}
	return e, errEntry
}

// commitOutcome turns a claim into a committed one, with the outcome if it is to
// be recorded.
func (e *entry) commitOutcome(id string, outcome []byte, recorded bool) (err error) {
	if !recorded {
		e.kind = kindUnrecorded
		return nil
	}
	e.kind = kindCommitted
	e.sealed, err = seal("natsguard outcome v1", id, e.encodeHeader(), outcome)
	return err
}

// openOutcome decrypts the outcome of a committed claim.
func (e *entry) openOutcome(id string) ([]byte, error) {
	return open("natsguard outcome v1", id, e.encodeHeader(), e.sealed)
}

// keyOf returns the bucket's key for an id, 64 hexadecimal digits. Each purpose
// has keys of its own.
func keyOf(purpose, id string) string {
	sum := sha256.Sum256([]byte("rondo " + purpose + "\x00" + id))
	return hex.EncodeToString(sum[:])
}

// bindFingerprint digests a fingerprint together with the id, so that equal answers
// to two states look different.
func bindFingerprint(id string, fingerprint [32]byte) [32]byte {
	b := append([]byte("rondo natsguard fingerprint v1\x00"), fingerprint[:]...)
	return sha256.Sum256(append(b, id...))
}

// seal encrypts with a key that is derived from the secret id, and authenticates
// bound along with the plaintext. One key may seal twice, when a commit is
// repeated, so the nonce is random.
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
	// An empty outcome is recorded, too: it must not become nil.
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
