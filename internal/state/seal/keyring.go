package seal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// maxPooled bounds pooled buffers: a token of 64 KiB, the hard cap, and its bytes.
const maxPooled = 112 << 10

// Keyring seals with one key and opens with several. It is immutable and concurrency-safe, and
// never prints a secret. See [NewKeyring].
type Keyring struct {
	_ [0]func()

	keys    []member   // the first is the primary; unique ids
	scratch *sync.Pool // of *[]byte, for tokens and their bytes, never plaintext
}

// member is a key with the constant parts of its tokens.
type member struct {
	Key
	prefix []byte // version, id length, id
	ad     []byte // additional data of the AEAD
}

// NewKeyring returns a keyring that seals with primary, and opens with primary and older keys. It
// refuses zero keys, duplicate ids, and a FIPS 140-only process that lacks AES-GCM with
// caller-chosen nonces.
func NewKeyring(primary Key, older ...Key) (*Keyring, error) {
	ring := &Keyring{
		keys:    make([]member, 0, 1+len(older)),
		scratch: &sync.Pool{New: func() any { return new([]byte) }},
	}
	for i, key := range append([]Key{primary}, older...) {
		if key.derive == nil {
			return nil, fmt.Errorf("key %d is the zero Key", i+1)
		}
		if ring.findKey([]byte(key.id)) != nil {
			return nil, fmt.Errorf("two keys have the id %q", key.id)
		}
		// Tried here, so that sealing cannot fail later.
		if _, err := key.derive(make([]byte, saltSize)); err != nil {
			return nil, fmt.Errorf("key %q: %w", key.id, err)
		}
		prefix := append([]byte{formatVersion, byte(len(key.id))}, key.id...)
		ring.keys = append(ring.keys, member{Key: key, prefix: prefix, ad: additionalData(key.id)})
	}
	return ring, nil
}

// Derive returns a keyring for another purpose, with the same ids in the same order, and derived
// secrets. Neither keyring opens the other's tokens. The purpose must have at most 255 bytes.
func (r *Keyring) Derive(purpose string) *Keyring {
	if len(purpose) > 255 {
		panic("seal: the purpose is longer than 255 bytes")
	}
	keys := make([]Key, len(r.keys))
	for i, m := range r.keys {
		secret := m.deriveSecret(purpose)
		keys[i] = makeKey(m.id, secret, m.ephemeral)
		clear(secret)
	}
	derived, err := NewKeyring(keys[0], keys[1:]...)
	if err != nil {
		panic("seal: internal error: " + err.Error()) // r's keys passed before
	}
	return derived
}

// Primary returns the sealing key's id.
func (r *Keyring) Primary() string { return r.keys[0].id }

// IDs returns the ids of all keys, the primary first.
func (r *Keyring) IDs() []string {
	ids := make([]string, len(r.keys))
	for i := range r.keys {
		ids[i] = r.keys[i].id
	}
	return ids
}

// Ephemeral reports whether the sealing key is ephemeral.
func (r *Keyring) Ephemeral() bool { return r.keys[0].ephemeral }

// Seal returns a new token for plaintext, which may be empty. The token is a third longer than the
// plaintext plus 42 bytes and the key id, and so reveals the plaintext's length.
func (r *Keyring) Seal(plaintext []byte) string {
	return r.sealWith(plaintext, func(b []byte) { rand.Read(b) }) // never fails
}

func (r *Keyring) sealWith(plaintext []byte, random func([]byte)) string {
	buf := r.scratch.Get().(*[]byte)
	defer r.recycleBuffer(buf)

	key := &r.keys[0]
	raw := append((*buf)[:0], key.prefix...)
	salt := len(raw)
	nonce := salt + saltSize
	raw = append(raw, make([]byte, saltSize+nonceSize)...)
	random(raw[salt:])

	aead, err := key.derive(raw[salt:nonce])
	if err != nil {
		panic("seal: internal error: " + err.Error()) // NewKeyring has tried it
	}
	raw = aead.Seal(raw, raw[nonce:], plaintext, key.ad)
	sealed := len(raw)
	*buf = encoding.AppendEncode(raw, raw)
	return string((*buf)[sealed:])
}

// Open returns a token's plaintext. A token over maxBytes bytes is refused before any work. On
// failure it returns nil and one of the Err variables, in a [KeyError] if the key is at fault.
func (r *Keyring) Open(token string, maxBytes int) (plaintext []byte, err error) {
	buf := r.scratch.Get().(*[]byte)
	defer r.recycleBuffer(buf)

	var p parts
	p, *buf, err = parse(*buf, token, maxBytes)
	if err != nil {
		return nil, err
	}
	key := r.findKey(p.id)
	if key == nil {
		named := &KeyError{ID: string(p.id[:min(len(p.id), MaxID)]), Err: ErrUnknownKey}
		if strings.HasPrefix(named.ID, ephemeralPrefix) {
			named.Err = ErrForeignEphemeral
		}
		return nil, named
	}
	aead, err := key.derive(p.salt)
	if err != nil {
		// Impossible; but no panic, because a peer's input led here.
		return nil, errors.Join(ErrAuthentication, err)
	}
	plaintext, err = aead.Open(nil, p.nonce, p.sealed, key.ad)
	if err != nil {
		return nil, ErrAuthentication
	}
	return plaintext, nil
}

// findKey returns the member with a (public) id, or nil. Rings are short.
func (r *Keyring) findKey(id []byte) *member {
	for i := range r.keys {
		if r.keys[i].id == string(id) {
			return &r.keys[i]
		}
	}
	return nil
}

func (r *Keyring) recycleBuffer(buf *[]byte) {
	if cap(*buf) <= maxPooled {
		r.scratch.Put(buf)
	}
}
