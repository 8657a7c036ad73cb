// Package keys holds the keys that seal the state of a flow. Replicas usually share a [Keyring]:
//
//	ring, err := keys.KeyringFromEnv(os.LookupEnv, "RONDO_KEYS")
//	...
//	srv, err := server.New(&server.Options{Roundtrip: roundtrip.Options{Sealer: ring}, ...})
package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

// A Sealer protects state that clients carry: a [Keyring] or your own, as for a KMS. Calls overlap.
type Sealer interface {
	// Seal returns plaintext as text, with authenticated encryption, and never the same text twice.
	Seal(ctx context.Context, plaintext []byte) (string, error)
	// Open undoes Seal. It must fail for any other text. The observer gets the error, the client
	// does not; see [ErrUnknownKey] and its neighbours for errors with a reason.
	Open(ctx context.Context, text string) ([]byte, error)
}

// A Describer is a [Sealer] that names its keys, as [Keyring] does. A funnel asks it once, to
// report the ids; an ephemeral key needs no Audience. Keys of other Sealers count as shared.
type Describer interface {
	// Primary returns the public id of the key that seals.
	Primary() string
	// IDs returns the public ids of all keys that open, the primary first.
	IDs() []string
	// Ephemeral reports whether the primary key belongs to this process only.
	Ephemeral() bool
}

// A Key seals and opens states. It never prints its secret.
type Key struct{ key seal.Key }

// NewKey returns the key with the given public id, 1 to 32 letters, digits, dots, dashes or
// underscores, and a secret of at least 32 random bytes.
func NewKey(id string, secret []byte) (Key, error) {
	k, err := seal.NewKey(id, secret)
	return Key{k}, err
}

// String names the key without its secret.
func (k Key) String() string { return k.key.String() }

// Format prints the key without its secret for every verb.
func (k Key) Format(f fmt.State, verb rune) { k.key.Format(f, verb) }

// GoString names the key without its secret.
func (k Key) GoString() string { return k.key.String() }

// MarshalJSON names the key without its secret.
func (k Key) MarshalJSON() ([]byte, error) { return k.key.MarshalJSON() }

// A Keyring is a [Sealer] with AES-256-GCM keys: the primary key seals, every key opens. To rotate,
// add the new key as an older one everywhere, make it the primary, then drop the old key once its
// states have expired. It never prints its secrets and may be used concurrently.
type Keyring struct{ ring *seal.Keyring }

// NewKeyring returns a keyring that seals with primary and opens with all. Ids must be distinct.
func NewKeyring(primary Key, older ...Key) (*Keyring, error) {
	keys := make([]seal.Key, len(older))
	for i, k := range older {
		keys[i] = k.key
	}
	ring, err := seal.NewKeyring(primary.key, keys...)
	if err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return &Keyring{ring}, nil
}

// KeyringFromEnv reads a keyring from the environment variable name with lookup, usually
// [os.LookupEnv]: "id:secret,id:secret", the primary first, with base64 secrets of at least 32
// bytes, the same on every replica. An unset variable is an error, lest a replica use its own key.
func KeyringFromEnv(lookup func(key string) (string, bool), name string) (*Keyring, error) {
	text, _ := lookup(name)
	if text == "" {
		return nil, fmt.Errorf("keyring: environment variable %s is not set", name)
	}
	ring, err := seal.ParseKeyring(text)
	if err != nil {
		return nil, fmt.Errorf("keyring: environment variable %s: %w", name, err)
	}
	return &Keyring{ring}, nil
}

// EphemeralKeyring returns a keyring with a random key of this process: a funnel's default.
func EphemeralKeyring() *Keyring {
	ring, err := seal.NewKeyring(seal.NewEphemeralKey())
	if err != nil {
		panic("keys: internal error: " + err.Error())
	}
	return &Keyring{ring}
}

// Derive returns a keyring for another purpose, a constant of at most 255 bytes, with derived
// secrets, the same on every replica. Neither keyring opens the other's states.
func (k *Keyring) Derive(purpose string) *Keyring { return &Keyring{k.ring.Derive(purpose)} }

// Seal implements [Sealer]. It never fails.
func (k *Keyring) Seal(_ context.Context, plaintext []byte) (string, error) {
	return k.ring.Seal(plaintext), nil
}

// Open implements [Sealer].
func (k *Keyring) Open(_ context.Context, text string) ([]byte, error) {
	plaintext, err := k.ring.Open(text, maxTextBytes)
	if named, ok := errors.AsType[*seal.KeyError](err); ok {
		return nil, &KeyError{named.ID, named.Err}
	}
	return plaintext, err
}

// Primary returns the id of the key that seals.
func (k *Keyring) Primary() string { return k.ring.Primary() }

// IDs returns the ids of all keys that open, the primary first.
func (k *Keyring) IDs() []string { return k.ring.IDs() }

// Ephemeral reports whether the primary key belongs to this process only.
func (k *Keyring) Ephemeral() bool { return k.ring.Ephemeral() }

// String names the keys without their secrets.
func (k *Keyring) String() string { return k.ring.String() }

// Format prints the keyring without its secrets for every verb.
func (k *Keyring) Format(f fmt.State, verb rune) { k.ring.Format(f, verb) }

// MarshalJSON names the keys without their secrets.
func (k *Keyring) MarshalJSON() ([]byte, error) { return k.ring.MarshalJSON() }

const maxTextBytes = 2 << 20 // a task's record can have 1 MiB; clients' texts have their own limits
