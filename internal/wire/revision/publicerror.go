package revision

// This file decides what a client learns of an error of the server.

import "github.com/rondo-mcp/rondo/protocol"

// InternalError returns the error that a client gets for a mistake of the server. What went
// wrong is for the observer.
func InternalError() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
}

// PublicError returns the protocol error within err, which is not nil, and an internal error
// where there is none.
func PublicError(err error) *protocol.Error {
	if e, ok := protocol.AsError(err); ok {
		return e
	}
	return InternalError()
}
