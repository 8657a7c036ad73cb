package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
)

const (
	// MinSecret is the least length of a secret in bytes, the strength of AES-256.
	MinSecret = 32

	// MaxID is the longest key id in bytes. Ids are in clear in every token.
	MaxID = 32

	// ephemeralPrefix marks ephemeral keys, for better errors. Configured keys may not have it.
	ephemeralPrefix = "e-"
)

// Key is a named sealing key, never printed. The zero Key is unusable. Do not compare keys.
type Key struct {
	_ [0]func()

	id        string
	ephemeral bool
	// A closure, because reflection would print bytes, past the methods in redact.go.
	derive       deriver
	deriveSecret secretDeriver // a closure likewise
}

// makeKey returns the key derived from secret, without retaining it.
func makeKey(id string, secret []byte, ephemeral bool) Key {
	return Key{id: id, ephemeral: ephemeral, derive: newDeriver(id, secret),
		deriveSecret: newSecretDeriver(id, secret)}
}

// NewKey returns a key that derives from secret. The id is 1 to [MaxID] of the bytes A-Z a-z 0-9
// '.' '_' '-', does not begin with "e-", and is readable in every token. The secret must hold at
// least [MinSecret] truly random bytes, not a pass phrase; it is not retained.
func NewKey(id string, secret []byte) (Key, error) {
	if err := checkID(id); err != nil {
		return Key{}, err
	}
	if err := checkSecret(secret); err != nil {
		return Key{}, fmt.Errorf("key %q: %w", id, err)
	}
	return makeKey(id, secret, false), nil
}

// NewEphemeralKey returns a random key with id "e-" and eight characters, for this process only.
func NewEphemeralKey() Key {
	secret := make([]byte, MinSecret)
	rand.Read(secret) // never fails: it ends the process instead
	defer clear(secret)
	// 40 bits: if ids of processes were equal, ErrAuthentication would replace ErrForeignEphemeral.
	id := ephemeralPrefix + rand.Text()[:8]
	return makeKey(id, secret, true)
}

// ID returns the key's id, "" for the zero Key.
func (k Key) ID() string { return k.id }

// Ephemeral reports whether the key came from [NewEphemeralKey].
func (k Key) Ephemeral() bool { return k.ephemeral }

// checkID and checkSecret never quote refused texts: halves may have been swapped.

func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("key id is empty")
	case len(id) > MaxID:
		return fmt.Errorf("key id has %d bytes, at most %d are allowed", len(id), MaxID)
	case strings.HasPrefix(id, ephemeralPrefix):
		return fmt.Errorf("key id begins with %q, which is reserved for ephemeral keys",
			ephemeralPrefix)
	}
	for i := range len(id) {
		if c := id[i]; c != '.' && !inAlphabet(c) {
			return fmt.Errorf(
				"key id has a byte at offset %d that is not a letter, a digit, '.', '_' or '-'", i)
		}
	}
	return nil
}

func checkSecret(secret []byte) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("secret has %d bytes, at least %d are needed", len(secret), MinSecret)
	}
	return nil
}
