package clienthttp

import (
	"net/http"

	"github.com/rondo-mcp/rondo/protocol"
)

var (
	ErrClosed           = errClosed
	ErrResponseTooLarge = errResponseTooLarge
	ErrNoResponse       = errNoResponse
)

func NewStatusError(status int, header http.Header, response *protocol.Error) *StatusError {
	return &StatusError{Status: status, Header: header, response: response}
}
