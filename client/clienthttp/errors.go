package clienthttp

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/rondo-mcp/rondo/internal/errprefix"
	"github.com/rondo-mcp/rondo/protocol"
)

// errPrefix is what every error of this package begins with, once.
const errPrefix errprefix.Prefix = "clienthttp: "

var (
	// ErrClosed says that the transport was closed.
	ErrClosed = errors.New("clienthttp: transport is closed")
	// ErrResponseTooLarge is within the error for a message above
	// [Options.MaxResponseBytes].
	ErrResponseTooLarge = errors.New("response is too large")
	// ErrNoResponse is within the error for a stream that ended before the
	// response: the connection broke, or the server gave up.
	ErrNoResponse = errors.New("stream ended without a response")
)

// maxExcerpt is how much of an error page is kept: enough to tell a proxy's
// page from a server's, too little to fill a log.
const maxExcerpt = 512

// A StatusError says that the server, or something on the way to it, answered
// with a status that is no success and without an error message of the
// protocol. For 401 and 403 with a WWW-Authenticate header it is returned even
// when there is one: the header is what the caller needs.
type StatusError struct {
	Status int
	// Header is the header of the response.
	Header http.Header
	// Excerpt is the start of the body, at most 512 bytes. It must not be
	// trusted.
	Excerpt string
	// Response is the protocol's error message where there is one, else nil.
	Response *protocol.Error
}

// Error names the status, and for redirects that they are not followed.
func (e *StatusError) Error() string {
	text := http.StatusText(e.Status)
	switch {
	case e.Status >= 300 && e.Status < 400:
		return fmt.Sprintf("clienthttp: HTTP status %d %s: redirects are not followed", e.Status, text)
	case e.Response != nil:
		return fmt.Sprintf("clienthttp: HTTP status %d %s: %v", e.Status, text, e.Response)
	case e.Excerpt != "":
		return fmt.Sprintf("clienthttp: HTTP status %d %s: %q", e.Status, text, e.Excerpt)
	}
	return fmt.Sprintf("clienthttp: HTTP status %d %s", e.Status, text)
}

// Unwrap returns the protocol's error message where there is one.
func (e *StatusError) Unwrap() error {
	if e.Response == nil {
		return nil
	}
	return e.Response
}

// HTTPStatus returns the status, for callers that do not import this package.
func (e *StatusError) HTTPStatus() int { return e.Status }
