package rules

import (
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
)

type errorCode struct {
	code        int64
	first, last protocol.Version // empty for no limit
	instead     int64            // code in other revisions, or 0
	dropData    bool             // the data has no meaning with that code
	transport   bool             // never returned by handlers
}

// errorCodes lists codes that some revisions lack (basic/index, "Error Codes").
var errorCodes = [...]errorCode{
	{code: protocol.CodeHeaderMismatch, first: protocol.V20260728,
		instead: protocol.CodeInvalidParams, transport: true},
	{code: protocol.CodeUnsupportedProtocolVersion, first: protocol.V20260728,
		instead: protocol.CodeInvalidParams, transport: true},
	{code: protocol.CodeMissingRequiredClientCapability, first: protocol.V20260728,
		instead: protocol.CodeCannotAsk, dropData: true},
	{code: protocol.CodeURLElicitationRequired,
		first: protocol.V20251125, last: protocol.V20251125},
	{code: protocol.CodeResourceNotFound, last: protocol.V20251125,
		instead: protocol.CodeInvalidParams},
}

// SpellError converts an error of a server or middleware for revision v: e itself if v has its
// code, otherwise a copy with v's code for the error. If v has none, it returns an error for the
// operator, and the client must get an internal error. e may be nil.
func SpellError(v protocol.Version, e *protocol.Error) (*protocol.Error, error) {
	c := missingCode(v, e)
	switch {
	case c == nil:
		return e, nil
	case c.instead == 0:
		return nil, noSuchCode(v, e)
	}
	spelled := *e
	spelled.Code = c.instead
	if c.dropData {
		spelled.Data = nil
	}
	return &spelled, nil
}

// SpellHandlerError is SpellError for handlers, which do not see headers and versions: an error
// about these that v lacks is a mistake.
func SpellHandlerError(v protocol.Version, e *protocol.Error) (*protocol.Error, error) {
	if c := missingCode(v, e); c != nil && c.transport {
		return nil, noSuchCode(v, e)
	}
	return SpellError(v, e)
}

func missingCode(v protocol.Version, e *protocol.Error) *errorCode {
	if e == nil {
		return nil
	}
	for _, c := range errorCodes {
		if c.code == e.Code && (v < c.first || c.last != "" && v > c.last) {
			return &c
		}
	}
	return nil
}

func noSuchCode(v protocol.Version, e *protocol.Error) error {
	return fmt.Errorf("code %d does not exist in revision %s", e.Code, v)
}

// ProvesModern reports whether only modern servers send e, which may be nil (basic/versioning,
// "Backward Compatibility"). Draft codes prove nothing: other servers use them too.
func ProvesModern(e *protocol.Error) bool {
	return e != nil && slices.Contains([]int64{protocol.CodeHeaderMismatch,
		protocol.CodeMissingRequiredClientCapability,
		protocol.CodeUnsupportedProtocolVersion}, e.Code)
}

// InternalError returns the client's error for a mistake of the server, without details.
func InternalError() *protocol.Error {
	return &protocol.Error{Code: protocol.CodeInternalError, Message: "internal error"}
}

// PublicError returns the protocol error within err, or an internal error. err must not be nil.
func PublicError(err error) *protocol.Error {
	if e, ok := protocol.AsError(err); ok {
		return e
	}
	return InternalError()
}

// AppendResponse appends a response, or an internal error if it cannot be encoded.
func AppendResponse(dst []byte, r *protocol.Response) []byte {
	line, err := protocol.AppendMessage(dst, r)
	if err != nil {
		line, _ = protocol.AppendMessage(dst,
			&protocol.Response{ID: r.ID, Error: InternalError()})
	}
	return line
}
