package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
)

const (
	// MinSecret is the least number of bytes in a secret. It is the strength of AES-256: derivation
	// cannot add entropy that the secret does not have.
	MinSecret = 32

	// MaxID is the greatest number of bytes in a key id. Ids travel in clear in every token, so
	// they are kept short.
	MaxID = 32

	// ephemeralPrefix begins the ids of keys that die with their process, so that another process
	// can say why it cannot open a token. It is reserved: a configured key may not carry it.
	ephemeralPrefix = "e-"
)

// Key is a named sealing key. The zero Key is not usable. A Key is safe to copy, never prints its
// secret, and cannot be compared with ==.
type Key struct {
	_ [0]func()

	id        string
	ephemeral bool
	// derive is a closure, not a field of key bytes: where fmt and other printers reach it by
	// reflection, past the methods in redact.go, it is an address.
	derive deriver
	// deriveSecret is a closure for the same reason.
	deriveSecret secretDeriver
}

// makeKey returns the key that derives from secret, of which it keeps no reference.
func makeKey(id string, secret []byte, ephemeral bool) Key {
	return Key{id: id, ephemeral: ephemeral, derive: newDeriver(id, secret),
		deriveSecret: newSecretDeriver(id, secret)}
}

// NewKey returns a key that derives from secret. The id is 1 to [MaxID] of the bytes A-Z a-z 0-9
// '.' '_' '-', does not begin with "e-", and is readable in every token. The secret must hold at
// least [MinSecret] bytes of real randomness, not a pass phrase; NewKey does not keep a reference
// to it.
func NewKey(id string, secret []byte) (Key, error) {
	if err := checkID(id); err != nil {
		return Key{}, err
	}
	if err := checkSecret(secret); err != nil {
		return Key{}, fmt.Errorf("key %q: %w", id, err)
	}
	return makeKey(id, secret, false), nil
}

// NewEphemeralKey returns a key with a random secret and a random id, "e-" and eight more
// characters. It exists in this process only: no replica opens what it seals, and neither does this
// program after a restart.
func NewEphemeralKey() Key {
	secret := make([]byte, MinSecret)
	rand.Read(secret) // never fails: it ends the process instead
	defer clear(secret)
	// 40 bits tell the processes of a fleet apart; two that draw the same id only see
	// ErrAuthentication where they would have seen ErrForeignEphemeral.
	id := ephemeralPrefix + rand.Text()[:8]
	return makeKey(id, secret, true)
}

// ID returns the key's id, "" for the zero Key.
func (k Key) ID() string { return k.id }

// Ephemeral reports whether the key came from [NewEphemeralKey].
func (k Key) Ephemeral() bool { return k.ephemeral }

// checkID and checkSecret never quote what they refuse: a configuration with its halves swapped has
// the secret where the id belongs.

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
