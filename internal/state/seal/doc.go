// Package seal turns bytes into an opaque token that a stranger may carry, and back. Nobody without
// a key can read a token, make one, or change one and have it accepted.
//
// The package knows nothing of what it seals. Who may use a token, for which request and until when
// is written inside the plaintext by package roundtrip; a token that opens here is authentic, which
// is not the same as welcome.
//
//	key, err := seal.NewKey("2026-07", secret) // at least MinSecret random bytes
//	ring, err := seal.NewKeyring(key)
//	token := ring.Seal([]byte("state"))
//	state, err := ring.Open(token, 16<<10)
//
// # Format
//
// A token is the base64url text, without padding, of
//
//	version   1 byte, 1
//	id length 1 byte, 1 to 32
//	id        the sealing key's id, in clear
//	salt      12 random bytes
//	nonce     12 random bytes
//	sealed    AES-256-GCM ciphertext, then its 16-byte tag
//
// Each token has a key of its own, derived with HKDF-SHA256 from the secret, the key id and the
// salt. That makes the random part 24 bytes wide in effect, so replicas that share a secret need
// not count what they seal. The additional data of the AEAD are the format's name, its version and
// the key id.
//
// Every token has exactly one valid spelling: white space, padding, the standard base64 alphabet
// and stray tail bits are refused before any key is used. The length of the plaintext and the key
// id are visible to whoever holds a token. internal/design/state.md gives the layout byte by byte, the
// promise about old tokens and the alternatives.
//
// # Rotation
//
// The first key of a [Keyring] seals and every key opens. To rotate: give the new key to every
// replica as an older one, then make it the first, and drop the old one when the last token it
// sealed has expired.
//
// # Secrets
//
// A [Key] does not keep the secret it was made from, and neither a Key nor a Keyring prints, logs
// or marshals anything but key ids. All functions and methods may be called concurrently.
//
// # Errors
//
// What is wrong with a token begins with "seal:", for it is met far from here. What is wrong with
// keys begins with the key or the entry: whoever makes a keyring says which one it is.
package seal
