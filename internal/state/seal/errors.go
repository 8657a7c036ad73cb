package seal

import "errors"

// These errors say why [Keyring.Open] refuses a token. They are for logs only: anybody may have
// written the bytes, and clients should not learn the reason. They quote nothing of a token or key.
var (
	// ErrTooLong means that the token exceeds the caller's limit.
	ErrTooLong = errors.New("seal: token is longer than allowed")
	// ErrAlphabet means that a byte is not one of A-Z, a-z, 0-9, '-' and '_'.
	ErrAlphabet = errors.New("seal: token has a byte outside the base64url alphabet")
	// ErrTruncated means that the token ends before its layout does.
	ErrTruncated = errors.New("seal: token is truncated")
	// ErrNonCanonical means that unused bits of the last character are not zero.
	ErrNonCanonical = errors.New("seal: token is not in canonical base64url")
	// ErrVersion means that this release does not open the token's format version.
	ErrVersion = errors.New("seal: token has an unknown format version")
	// ErrUnknownKey means a key not in the keyring: retired, not rolled out yet, or invented.
	ErrUnknownKey = errors.New("seal: token names a key that is not enabled")
	// ErrForeignEphemeral: another process's key; usually replicas or a restart without shared key.
	ErrForeignEphemeral = errors.New("seal: token names the ephemeral key of another process")
	// ErrAuthentication means that the token was not sealed with the named key, or changed since.
	ErrAuthentication = errors.New("seal: token does not authenticate")
)

// A KeyError is about the key named by a token, which is not authentic.
type KeyError struct {
	// ID is the token's key id, cut at the longest valid length. It may hold any bytes.
	ID  string
	Err error // one of the above
}

// Error returns the text of Err, without the ID, which may need escaping.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }
