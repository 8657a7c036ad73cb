package server

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// ErrCannotClose is returned by [Call.CloseStream] where the client could not come back: on the
// modern wire, over line streams, to clients older than revision 2025-11-25, and without a session.
var ErrCannotClose = errors.New("server: this stream cannot be closed before its request has " +
	"been answered")

// ErrEnded is returned for messages that a handler sends after its request has been answered.
var ErrEnded = errors.New("server: the request has ended")

// errSessionClosed is the cause with which a closed session cancels its requests.
var errSessionClosed = errors.New("server: the session has been closed")

// ErrClosed is the cause with which a closing server cancels the contexts of running requests.
var ErrClosed error = &closedError{"server: closed"}

// A closedError ends requests and questions when their server closes.
type closedError struct{ text string }

func (e *closedError) Error() string { return e.text }

// Is makes the error match [waiting.ErrClosing], so that the funnel tells the caller to call again.
func (e *closedError) Is(target error) bool { return target == waiting.ErrClosing }

// An InputRequiredError lets a handler that cannot return an outcome, as of [AddToolOut], ask the
// client for input: the server answers with Result instead of an error. It may be wrapped.
type InputRequiredError struct {
	Result *protocol.InputRequiredResult
}

// Error means that input is required.
func (e *InputRequiredError) Error() string { return "input required from the client" }

// A ToolError is the negative answer of a tool that can only return an error, as of [AddToolOut]:
// "there is no such bill". The client gets Text as an error result, which the model reads, as from
// [ErrorText]. It is not logged as a failure, and roundtrip.Options.HideErrors does not hide it, so
// Text must be fit for the caller. It may be wrapped; the words around it are dropped. In prompts
// and resources it is an error like any other.
type ToolError struct{ Text string }

// Error returns Text.
func (e *ToolError) Error() string { return e.Text }

// A bugError is a mistake of the program: the client gets an internal error, the observer its text.
type bugError struct{ err error }

func (e *bugError) Error() string { return e.err.Error() }
func (e *bugError) Unwrap() error { return e.err }

// maxQuoted limits the bytes of a peer's text in an error.
const maxQuoted = 100

func clipQuoted(s string) string { return errtext.Mark(s, maxQuoted) }

// mustRegister panics with the first error and the name of the definition.
func mustRegister(kind, name string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			panic(fmt.Sprintf("server: %s %q: %v", kind, name, err))
		}
	}
}

// checkName refuses names that clients cannot use.
func checkName(name string) error {
	if name == "" || !utf8.ValidString(name) {
		return errors.New("name must be valid UTF-8 and not empty")
	}
	return nil
}

// checkUnique refuses names that clients cannot use, and names that are in seen.
func checkUnique(kind, name string, seen map[string]bool) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if seen[name] {
		return fmt.Errorf("%s %q appears twice", kind, name)
	}
	seen[name] = true
	return nil
}
