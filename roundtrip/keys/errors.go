package keys

import (
	"errors"

	"github.com/rondo-mcp/rondo/internal/state/seal"
)

// The errors of [Sealer.Open] that say why a text was refused. A custom Sealer returns or wraps
// them so that the observer gets the same reasons as from a [Keyring]; any other error is reported
// as a refusal by the sealer. Clients do not see which one it was.
var (
	// ErrMalformed: the text is not in the format of the sealer. A Keyring returns more precise
	// errors with the same meaning.
	ErrMalformed = errors.New("keys: text is not a token")
	// ErrVersion: the text is of a version of the format that the sealer does not open.
	ErrVersion = seal.ErrVersion
	// ErrUnknownKey: the text names a key that is not enabled. Wrap it in a [KeyError].
	ErrUnknownKey = seal.ErrUnknownKey
	// ErrForeignEphemeral: the text names an ephemeral key of another process. Wrap it likewise.
	ErrForeignEphemeral = seal.ErrForeignEphemeral
	// ErrTampered: the text was not sealed with the key that it names, or was changed since.
	ErrTampered = seal.ErrAuthentication
)

// A KeyError is an error about the key that a text names. The text is not authentic:
// anybody can name any key.
type KeyError struct {
	ID  string // as in the text: it may hold any bytes, so bound its length
	Err error  // one of the errors above
}

// Error returns the text of Err. It leaves the id to callers who can escape it.
func (e *KeyError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *KeyError) Unwrap() error { return e.Err }
