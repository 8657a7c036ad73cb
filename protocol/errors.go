package protocol

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Error codes (basic/index, "Error Codes").
const (
	CodeParseError     = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternalError  = -32603

	CodeHeaderMismatch                  = -32020
	CodeMissingRequiredClientCapability = -32021
	CodeUnsupportedProtocolVersion      = -32022

	// CodeResourceNotFound is used by legacy revisions only; modern servers answer
	// [CodeInvalidParams] with the URI as data.
	CodeResourceNotFound = -32002
	// CodeURLElicitationRequired exists in revision 2025-11-25 only.
	CodeURLElicitationRequired = -32042
)

// Codes of rondo's own, outside the range that JSON-RPC reserves.
const (
	// CodeRefused means that the person behind the client declined or cancelled a question without
	// whose answer a prompt or resource cannot be served.
	CodeRefused = 23220
	// CodeFlowEnded means that a multi round-trip flow ended without a result: too many rounds, or
	// a client that loses the request state.
	CodeFlowEnded = 23221
	// CodeHandlerError carries a plain error of a prompt or resource handler.
	CodeHandlerError = 23222
	// CodeBusy means that a limit of the server is reached; try again later.
	CodeBusy = 23223
	// CodeCannotAsk means that a client of a legacy revision cannot be asked what a request needs
	// to know, or that a client of any answers without showing it.
	CodeCannotAsk = 23225
	// CodeTimeout means that the server gave up on a request after a time limit of its own.
	CodeTimeout = 23224
	// CodeInsufficientScope means that the caller's credentials lack scopes that the request needs;
	// the member scopes of the data names all that it needs.
	CodeInsufficientScope = 23226
)

// An Error is a JSON-RPC error: what one peer says to the other. Handlers may return one to choose
// the code and the data that the client sees.
type Error struct {
	Code    int64
	Message string
	// Data is a JSON value, nil when there is none.
	Data json.RawMessage
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf returns an [*Error] with a formatted message.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e whose data is the JSON encoding of v. A value that cannot be encoded
// leaves the data out: an error must always get through.
func (e *Error) WithData(v any) *Error {
	c := *e
	c.Data = nil
	if data, err := jsonx.Marshal(v); err == nil {
		c.Data = data
	}
	return &c
}

// MissingCapabilities returns the error that names what a client would have to declare for its
// request to be served (code -32021).
func MissingCapabilities(missing ClientCapabilities) *Error {
	e := Errorf(CodeMissingRequiredClientCapability, "missing required client capability: %s",
		missing)
	return e.WithData(struct {
		Required ClientCapabilities `json:"requiredCapabilities"`
	}{missing})
}

// RequiredCapabilities returns what a [CodeMissingRequiredClientCapability] error names as missing.
// It reports false for other errors and for data that cannot be read.
func (e *Error) RequiredCapabilities() (ClientCapabilities, bool) {
	if e == nil || e.Code != CodeMissingRequiredClientCapability {
		return ClientCapabilities{}, false
	}
	var required ClientCapabilities
	found := false
	err := walkMembers(e.Data, func(key, value []byte) (err error) {
		if string(key) == "requiredCapabilities" {
			found = true
			required, err = DecodeClientCapabilities(value)
		}
		return err
	})
	return required, found && err == nil
}

// UnsupportedVersion returns the error that names the versions a server does support (code -32022).
func UnsupportedVersion(requested string, supported []Version) *Error {
	e := Errorf(CodeUnsupportedProtocolVersion, "unsupported protocol version %s",
		quoteClipped(requested))
	return e.WithData(struct {
		Supported []Version `json:"supported"`
		Requested string    `json:"requested"`
	}{supported, requested})
}

// SupportedVersions returns the versions that a [CodeUnsupportedProtocolVersion] error names, nil
// for other errors.
func (e *Error) SupportedVersions() []Version {
	if e == nil || e.Code != CodeUnsupportedProtocolVersion {
		return nil
	}
	var supported []Version
	err := walkMembers(e.Data, func(key, value []byte) error {
		if string(key) != "supported" {
			return nil
		}
		return jsonx.Elements(value, func(_ int, v []byte) error {
			s, err := jsonx.Text(v)
			supported = append(supported, Version(s))
			return err
		})
	})
	if err != nil {
		return nil
	}
	return supported
}

// ResourceNotFound returns the error for a resource that does not exist, as modern revisions spell
// it: invalid params with the URI as data (server/resources, "Error Handling").
func ResourceNotFound(uri string) *Error {
	e := Errorf(CodeInvalidParams, "resource not found: %s", quoteClipped(uri))
	return e.WithData(struct {
		URI string `json:"uri"`
	}{uri})
}

// A URLElicitationRequiredError means that a request cannot be served until the person has visited
// one or more URLs. Revision 2025-11-25 has an error of its own for it (-32042); on the modern wire
// the same error, returned by a handler, becomes an [InputRequiredResult] with URL questions.
type URLElicitationRequiredError struct {
	// Message is shown to people; empty means a default.
	Message string
	// Elicitations are the visits needed. Their ElicitationID becomes the key of the question where
	// it can.
	Elicitations []*ElicitURL
}

// Error returns the message.
func (e *URLElicitationRequiredError) Error() string {
	if e.Message == "" {
		return "this request requires the user to visit a URL first"
	}
	return e.Message
}

// ErrSessionGone is wrapped by the errors of a [LegacySession] that the server no longer knows,
// because it expired or the server restarted. The session cannot be resumed; open a new one.
var ErrSessionGone = errors.New("session is gone")

// ErrNotRun is wrapped by the error of a request that did not run and may be sent again: the server
// could not be reached, or, beside [ErrSessionGone], the session was over or is not known to the
// server (404).
var ErrNotRun = errors.New("the request did not run")

// AsError returns the [*Error] within err, if there is one.
func AsError(err error) (*Error, bool) {
	e, ok := errors.AsType[*Error](err)
	return e, ok && e != nil
}

func decodeError(raw []byte) (*Error, error) {
	e := &Error{}
	var code, message bool
	err := readMembers(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "code":
			code = true
			e.Code, err = jsonx.Int(value)
		case "message":
			message = true
			e.Message, err = jsonx.Text(value)
		case "data":
			e.Data = value
		}
		if err != nil {
			return fmt.Errorf("error.%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !code || !message {
		return nil, fmt.Errorf("error must have a code and a message")
	}
	return e, nil
}

func appendError(dst []byte, e *Error) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendInt(dst, e.Code)
	dst = append(dst, `,"message":`...)
	dst = jsonx.AppendText(dst, e.Message)
	// Data that is not JSON is dropped: an error must always get through.
	if e.Data != nil && jsonx.Check(e.Data) == nil {
		dst = append(dst, `,"data":`...)
		dst = jsonx.AppendCompact(dst, e.Data)
	}
	return append(dst, '}')
}

// quoteClipped quotes what a peer sent for an error message.
func quoteClipped(s string) string { return errtext.Quote(s, 64) }

// draftCodes are the codes that drafts of revision 2026-07-28 used for three errors. Other servers
// use the same codes for other errors, so they are translated only for peers that are known to
// implement such a draft.
var draftCodes = [...]struct{ final, draft int64 }{
	{CodeHeaderMismatch, -32001},
	{CodeMissingRequiredClientCapability, -32003},
	{CodeUnsupportedProtocolVersion, -32004},
}

// Draft returns e with the code that drafts of revision 2026-07-28 used, or e itself when it is the
// same. It may be called on nil.
func (e *Error) Draft() *Error {
	for _, c := range draftCodes {
		if e != nil && e.Code == c.final {
			return &Error{c.draft, e.Message, e.Data}
		}
	}
	return e
}

// Final undoes [Error.Draft], for peers that are known to use those codes.
func (e *Error) Final() *Error {
	for _, c := range draftCodes {
		if e != nil && e.Code == c.draft {
			return &Error{c.final, e.Message, e.Data}
		}
	}
	return e
}
