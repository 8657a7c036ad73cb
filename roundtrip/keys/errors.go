package keys

import (
	"errors"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

// The errors of [Sealer.Open] with a reason for the observer; a custom Sealer returns or wraps
// them. Other errors are reported as a refusal by the sealer. Clients cannot distinguish them.
var (
	// ErrMalformed: the text is not in the sealer's format. A Keyring returns more precise errors.
	ErrMalformed = errors.New("keys: text is not a token")
	// ErrVersion: the text has a format version that the sealer does not support.
	ErrVersion = seal.ErrVersion
	// ErrUnknownKey: the text names a key that is not enabled. Wrap it in a [KeyError].
	ErrUnknownKey = seal.ErrUnknownKey
	// ErrForeignEphemeral: the text names another process's ephemeral key. Use a [KeyError].
	ErrForeignEphemeral = seal.ErrForeignEphemeral
	// ErrTampered: the text was not sealed with the key that it names, or was changed since.
	ErrTampered = seal.ErrAuthentication
)

// A KeyError is an error about the key that a text names. Anybody can name any key.
type KeyError struct {
	ID  string // as in the text: may hold any bytes, so bound its length
	Err error  // one of the errors above
}

// Error returns the text of Err, without the unescaped id.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }
