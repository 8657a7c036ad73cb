// Package seal turns bytes into an opaque token for untrusted carriers, and back. Without a key
// nobody can read, make or change a token.
//
// Tokens that open are authentic, but not necessarily valid: the plaintext, written by package
// roundtrip, says for whom, for which request and until when.
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
// Each token has its own key, derived with HKDF-SHA256 from the secret, the key id and the salt. So
// 24 bytes are effectively random, and replicas that share a secret need not count tokens. The
// AEAD's additional data are the format's name, version and key id.
//
// A token has exactly one valid spelling: white space, padding, standard base64 and stray tail bits
// are refused before any key is used. A token's holder can see plaintext length and key id.
// internal/design/state.md has the layout, compatibility of old tokens and the alternatives.
//
// # Rotation
//
// The first key of a [Keyring] seals and every key opens. To rotate: add the new key to all
// replicas as an older one, make it the first, drop the old one when its last token expired.
//
// # Secrets
//
// A [Key] does not keep its secret. Keys and Keyrings print, log and marshal only key ids. All
// functions and methods may be called concurrently.
//
// # Errors
//
// Errors about tokens begin with "seal:", about keys with key or entry, for the caller to complete.
package seal
