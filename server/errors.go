package server

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// ErrCannotClose is returned by [Call.CloseStream] where the client could not reconnect: on the
// modern wire, over line streams, before revision 2025-11-25, and without a session.
var ErrCannotClose = errors.New("server: this stream cannot be closed before its request has " +
	"been answered")

// ErrEnded is returned for messages that a handler sends after the response.
var ErrEnded = errors.New("server: the request has ended")

// errSessionClosed is the cause with which a closed session cancels its requests.
var errSessionClosed = errors.New("server: the session has been closed")

// ErrClosed is the cause with which a closing server cancels running requests.
var ErrClosed error = &closedError{"server: closed"}

type closedError struct{ text string }

func (e *closedError) Error() string { return e.text }

// Is makes the error match [waiting.ErrClosing], so that the funnel tells the caller to retry.
func (e *closedError) Is(target error) bool { return target == waiting.ErrClosing }

// An InputRequiredError lets handlers that cannot return an outcome, as with [AddToolOut], ask the
// client for input: the server answers with Result. It may be wrapped.
type InputRequiredError struct {
	Result *protocol.InputRequiredResult
}

// Error says that input is required.
func (e *InputRequiredError) Error() string { return "input required from the client" }

// A ToolError is the negative answer of a tool that can only return an error, as with [AddToolOut]:
// "there is no such bill". The client gets Text as an error result, as from [ErrorText]. It is not
// logged as a failure, and roundtrip.Options.HideErrors does not hide it, so Text must be fit for
// the caller. A wrapping error's text is dropped. In prompts and resources it is an ordinary error.
type ToolError struct{ Text string }

// Error returns Text.
func (e *ToolError) Error() string { return e.Text }

// A bugError is a bug of the program: the client gets an internal error, the observer the text.
type bugError struct{ err error }

func (e *bugError) Error() string { return e.err.Error() }
func (e *bugError) Unwrap() error { return e.err }

const maxQuoted = 100 // bytes of a peer's text in an error

func clipQuoted(s string) string { return errtext.Mark(s, maxQuoted) }

// mustRegister panics with the first error and the name of the definition.
func mustRegister(kind, name string, errs ...error) {
	for _, err := range errs {
		if err != nil {
			panic(fmt.Sprintf("server: %s %q: %v", kind, name, err))
		}
	}
}

func checkName(name string) error {
	if name == "" || !utf8.ValidString(name) {
		return errors.New("name must be valid UTF-8 and not empty")
	}
	return nil
}

// checkUnique refuses invalid names, and names in seen.
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
