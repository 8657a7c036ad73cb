package seal

import "errors"

// The reasons [Keyring.Open] gives for refusing a token. They are for the log: each is found in
// bytes that anybody may have written, and a client should not be told which it was. They carry
// nothing of the token or of a key.
var (
	// ErrTooLong: the token has more bytes than the caller allows.
	ErrTooLong = errors.New("seal: token is longer than allowed")
	// ErrAlphabet: a byte is not one of A-Z, a-z, 0-9, '-' and '_'.
	ErrAlphabet = errors.New("seal: token has a byte outside the base64url alphabet")
	// ErrTruncated: the token ends before its layout does.
	ErrTruncated = errors.New("seal: token is truncated")
	// ErrNonCanonical: the unused bits of the last character are not zero, so the text is not what
	// sealing would have written.
	ErrNonCanonical = errors.New("seal: token is not in canonical base64url")
	// ErrVersion: the token is of a format version this release does not open.
	ErrVersion = errors.New("seal: token has an unknown format version")
	// ErrUnknownKey: the token names a key that is not in the keyring: retired, not rolled out yet,
	// or invented.
	ErrUnknownKey = errors.New("seal: token names a key that is not enabled")
	// ErrForeignEphemeral: the token names an ephemeral key of another process, which usually means
	// replicas or a restart without a shared key.
	ErrForeignEphemeral = errors.New("seal: token names the ephemeral key of another process")
	// ErrAuthentication: the token was not sealed with the key it names, or was changed since.
	ErrAuthentication = errors.New("seal: token does not authenticate")
)

// A KeyError is an error about the key that a token names. The token is not authentic: anybody can
// name any key.
type KeyError struct {
	// ID is what the token has for the id of its key, cut at the length of the longest valid one.
	// It may hold any bytes.
	ID  string
	Err error // one of the above
}

// Error returns the text of Err. It leaves the id to callers who can escape it.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }
