package rules

import (
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

// An errorCode is a code that some revisions lack.
type errorCode struct {
	code        int64
	first, last protocol.Version // empty: no limit
	instead     int64            // the code in other revisions; 0: there is none
	dropData    bool             // the data has no meaning beside that code
	transport   bool             // transports and servers return it, and never handlers
}

// errorCodes are the codes that some revisions lack (basic/index, "Error Codes"). A code that is
// not listed exists in all of them.
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

// SpellError returns an error of a server or of middleware as revision v spells it: e itself if v
// has its code, otherwise a copy with the code that v uses instead. If v has none it returns an
// error for the operator: the client must get an internal error. It may be called on nil, which it
// returns.
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

// SpellHandlerError is SpellError for an error of a handler. A handler does not see headers and
// versions, so an error about them that v lacks is a mistake too.
func SpellHandlerError(v protocol.Version, e *protocol.Error) (*protocol.Error, error) {
	if c := missingCode(v, e); c != nil && c.transport {
		return nil, noSuchCode(v, e)
	}
	return SpellError(v, e)
}

// missingCode returns the entry of e's code if revision v lacks it, otherwise nil.
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

// ProvesModern reports whether e is an error that only servers of modern revisions send, which
// proves that the server is one (basic/versioning, "Backward Compatibility"). The codes that drafts
// used for the same errors prove nothing, since other servers use them for other errors. e may be
// nil.
func ProvesModern(e *protocol.Error) bool {
	if e == nil {
		return false
	}
	switch e.Code {
	case protocol.CodeHeaderMismatch, protocol.CodeMissingRequiredClientCapability,
		protocol.CodeUnsupportedProtocolVersion:
		return true
	}
	return false
}

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

// AppendResponse appends a response to dst. One that cannot be written is replaced by an internal
// error.
func AppendResponse(dst []byte, r *protocol.Response) []byte {
	line, err := protocol.AppendMessage(dst, r)
	if err != nil {
		line, _ = protocol.AppendMessage(dst,
			&protocol.Response{ID: r.ID, Error: InternalError()})
	}
	return line
}
