package clienthttp

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

const errPrefix errtext.Prefix = "clienthttp: " // every error text starts with it once

var (
	errClosed           = errors.New("clienthttp: transport is closed")
	errResponseTooLarge = errors.New("response is too large") // above Options.MaxResponseBytes
	errNoResponse       = errors.New("stream ended without a response")
)

// A malformedError is an invalid response: bad JSON, no message, a wrong id or type, or too large.
type malformedError struct {
	err    error
	offset int
	hasRun bool
}

// newMalformedError returns the error of an invalid response. data is the JSON at fault, or nil.
func newMalformedError(data []byte, err error) error {
	e := &malformedError{err: err, offset: -1}
	if data == nil {
		return e
	}
	if at, ok := errors.AsType[*jsonx.SyntaxError](jsonx.Check(data)); ok {
		e.offset = at.Offset
	}
	return e
}

func (e *malformedError) Error() string { return e.err.Error() }

func (e *malformedError) Unwrap() error { return e.err }

// MalformedAt returns the offset of malformed JSON, or -1. Other packages find it by an interface.
func (e *malformedError) MalformedAt() int { return e.offset }

// HasRun reports whether the request provably ran. Other packages find it by an interface.
func (e *malformedError) HasRun() bool { return e.hasRun }

const maxExcerpt = 512 // enough to tell a proxy's error page from a server's

const maxChallenge = 256 // of a quoted WWW-Authenticate header

// A StatusError means that the server, or a proxy, answered with an error status and no error
// message of the protocol. For notifications, which have no response, and for 401 and 403 with a
// WWW-Authenticate header, which the caller needs, it wraps such a message.
type StatusError struct {
	Status   int
	Header   http.Header
	excerpt  string          // at most maxExcerpt bytes of the body
	response *protocol.Error // the protocol's error message, or nil
}

// Error names the status and, for 401 and 403, quotes the WWW-Authenticate header.
func (e *StatusError) Error() string {
	name := http.StatusText(e.Status)
	text := fmt.Sprintf("clienthttp: HTTP status %d %s", e.Status, name)
	challenge := e.challenge()
	switch {
	case challenge == "" && e.Status >= 300 && e.Status < 400:
		return text + ": redirects are not followed"
	case e.response != nil && (challenge == "" || e.response.Message != name):
		text += fmt.Sprintf(": %v", e.response)
	case challenge == "" && e.excerpt != "":
		text += fmt.Sprintf(": %q", e.excerpt)
	}
	if challenge != "" {
		text += fmt.Sprintf(": challenge %+q", challenge)
	}
	return text
}

// challenge returns the start of the WWW-Authenticate header of a 401 or 403, to be quoted.
func (e *StatusError) challenge() string {
	if e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden {
		return ""
	}
	text := strings.ReplaceAll(e.Header.Get("WWW-Authenticate"), `"`, "'")
	return text[:min(len(text), maxChallenge)]
}

// Unwrap returns the protocol's error message, if any.
func (e *StatusError) Unwrap() error {
	if e.response == nil {
		return nil
	}
	return e.response
}

// HTTPStatus returns the status, for packages that do not import this one.
func (e *StatusError) HTTPStatus() int { return e.Status }
