package protocol

import (
	"cmp"
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

	// CodeResourceNotFound exists in legacy revisions; modern servers answer [CodeInvalidParams].
	CodeResourceNotFound       = -32002
	CodeURLElicitationRequired = -32042 // revision 2025-11-25 only
)

// Codes of rondo's own, outside the range reserved by JSON-RPC.
const (
	// CodeRefused means that the user declined or cancelled a question of a prompt or resource.
	CodeRefused = 23220
	// CodeFlowEnded: a flow ended without result: too many rounds or a client that loses the state.
	CodeFlowEnded = 23221
	// CodeHandlerError carries a plain error of a prompt or resource handler.
	CodeHandlerError = 23222
	// CodeBusy means that a limit of the server is reached; try again later.
	CodeBusy = 23223
	// CodeCannotAsk means that a legacy client cannot be asked a question that the request needs
	// answered, or that a client answers questions without showing them.
	CodeCannotAsk = 23225
	// CodeTimeout means that a request exceeded a time limit of the server.
	CodeTimeout = 23224
	// CodeInsufficientScope means that the caller's credentials lack scopes; the member scopes of
	// the data lists all that the request needs.
	CodeInsufficientScope = 23226
)

// An Error is a JSON-RPC error. Handlers may return an Error to choose the client's code and data.
type Error struct {
	Code    int64
	Message string
	Data    json.RawMessage // a JSON value, nil when absent
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// Errorf returns an [*Error] with a formatted message.
func Errorf(code int64, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithData returns a copy of e with v, encoded as JSON, as its data. If v cannot be encoded, the
// copy has no data, so that an error is always deliverable.
func (e *Error) WithData(v any) *Error {
	c := *e
	c.Data = nil
	if data, err := jsonx.Marshal(v); err == nil {
		c.Data = data
	}
	return &c
}

// MissingCapabilities returns the error for undeclared client capabilities (code -32021).
func MissingCapabilities(missing ClientCapabilities) *Error {
	e := Errorf(CodeMissingRequiredClientCapability, "missing required client capability: %s",
		missing)
	return e.WithData(struct {
		Required ClientCapabilities `json:"requiredCapabilities"`
	}{missing})
}

// RequiredCapabilities returns the missing capabilities of a [CodeMissingRequiredClientCapability]
// error, or false for other errors and unreadable data.
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

// UnsupportedVersion returns the error that lists the server's versions (code -32022).
func UnsupportedVersion(requested string, supported []Version) *Error {
	e := Errorf(CodeUnsupportedProtocolVersion, "unsupported protocol version %s",
		quoteClipped(requested))
	return e.WithData(struct {
		Supported []Version `json:"supported"`
		Requested string    `json:"requested"`
	}{supported, requested})
}

// SupportedVersions returns the versions in a [CodeUnsupportedProtocolVersion] error, or nil.
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

// ResourceNotFound returns the error for a missing resource in modern spelling: invalid params with
// the URI as data (server/resources, "Error Handling").
func ResourceNotFound(uri string) *Error {
	e := Errorf(CodeInvalidParams, "resource not found: %s", quoteClipped(uri))
	return e.WithData(struct {
		URI string `json:"uri"`
	}{uri})
}

// A URLElicitationRequiredError means that the user must visit URLs before a request can be served.
// Revision 2025-11-25 has an error for it (-32042); in modern revisions, when a handler returns it,
// the client gets an [InputRequiredResult] with URL questions.
type URLElicitationRequiredError struct {
	Message string // shown to users; a default if empty
	// Elicitations are the visits needed. An ElicitationID is used as a question's key if possible.
	Elicitations []*ElicitURL
}

// Error returns the message.
func (e *URLElicitationRequiredError) Error() string {
	return cmp.Or(e.Message, "this request requires the user to visit a URL first")
}

// ErrSessionGone is wrapped by errors of a [LegacySession] that the server no longer knows: it
// expired, or the server restarted. Open a new session; this one cannot be resumed.
var ErrSessionGone = errors.New("session is gone")

// ErrNotRun is wrapped by the error of a request that did not run and is safe to retry: the server
// could not be reached, or, with [ErrSessionGone], the session was over or unknown (404).
var ErrNotRun = errors.New("the request did not run")

// AsError returns the [*Error] within err, if any.
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
	// Data that is not JSON is dropped, so that an error is always deliverable.
	if e.Data != nil && jsonx.Check(e.Data) == nil {
		dst = append(dst, `,"data":`...)
		dst = jsonx.AppendCompact(dst, e.Data)
	}
	return append(dst, '}')
}

func quoteClipped(s string) string { return errtext.Quote(s, 64) }

// draftCodes are codes of drafts of revision 2026-07-28. Other servers use them for other errors,
// so only the codes of peers known to implement a draft are translated.
var draftCodes = [...]struct{ final, draft int64 }{
	{CodeHeaderMismatch, -32001},
	{CodeMissingRequiredClientCapability, -32003},
	{CodeUnsupportedProtocolVersion, -32004},
}

// Draft returns e with the code of drafts of 2026-07-28, or e itself. The receiver may be nil.
func (e *Error) Draft() *Error {
	for _, c := range draftCodes {
		if e != nil && e.Code == c.final {
			return &Error{c.draft, e.Message, e.Data}
		}
	}
	return e
}

// Final undoes [Error.Draft], for peers known to use draft codes.
func (e *Error) Final() *Error {
	for _, c := range draftCodes {
		if e != nil && e.Code == c.draft {
			return &Error{c.final, e.Message, e.Data}
		}
	}
	return e
}
