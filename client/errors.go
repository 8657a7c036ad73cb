package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

const errPrefix errtext.Prefix = "client: " // every error text starts with it once

var (
	// ErrClosed means that the client was closed before the call or during it.
	ErrClosed = errors.New("client: closed; create a new one")
	// ErrStreamEnded is wrapped by the errors of a [Stream] that the server closed, or that can no
	// longer be read or written. Running requests are lost and may be repeated on another stream
	// (basic/transports/stdio, "Unexpected Termination").
	ErrStreamEnded = errors.New("client: stream has ended; start the server again")

	errSubscriptionEnded = errors.New("client: server has ended the subscription; subscribe again")
	// errMessageTooLong is wrapped by errors for messages above [StreamOptions.MaxLineBytes].
	errMessageTooLong = errors.New("client: message is too long; see StreamOptions.MaxLineBytes")
	// errOverrun: notifications arrived faster than they were handled. Which are lost is unknown.
	errOverrun = errors.New("client: notifications arrived faster than they were handled; " +
		"subscribe again and reread everything")
)

// A TransportError means that a request got no response. The server may have acted on the request.
type TransportError struct {
	Method string
	Err    error
}

// Error names the method, the cause and what to do about it.
func (e *TransportError) Error() string {
	text := string(errPrefix) + e.Method + ": "
	_, answered := httpStatus(e.Err)
	_, unusable := errors.AsType[unusableResponse](e.Err)
	if !answered && !unusable {
		text += "no response: "
	}
	text += errPrefix.Text(e.Err)
	if step := e.nextStep(); step != "" {
		text += "; " + step
	}
	return text
}

type unusableResponse interface {
	error
	HasRun() bool // reports whether the request has certainly run
}

// nextStep returns advice for the caller, or "" if the cause already says it.
func (e *TransportError) nextStep() string {
	if step := stepAfterStatus(e.Method, e.Err); step != "" {
		return step
	}
	_, unhandled := errors.AsType[interface {
		error
		Unhandled()
	}](e.Err)
	response, unusable := errors.AsType[unusableResponse](e.Err)
	isGone := errors.Is(e.Err, protocol.ErrSessionGone)
	switch {
	case unhandled: // the cause says what to do about the credentials
		return ""
	case errors.Is(e.Err, protocol.ErrNotRun) && errors.Is(e.Err, ErrStreamEnded):
		return ""
	case errors.Is(e.Err, protocol.ErrNotRun) && isGone:
		return "call again"
	case errors.Is(e.Err, protocol.ErrNotRun):
		return "see that the server can be reached and call again"
	case unusable && response.HasRun():
		return afterRun(e.Method)
	case isGone && e.Method == protocol.MethodCallTool:
		return mayHaveRun + "; the next call opens a new session"
	case isGone:
		return "the next call opens a new session"
	case errors.Is(e.Err, ErrClosed):
		return ""
	case e.Method == protocol.MethodCallTool:
		return mayHaveRun
	case errors.Is(e.Err, ErrStreamEnded), errors.Is(e.Err, errMessageTooLong):
		return ""
	}
	return "see that the server can be reached and call again"
}

const mayHaveRun = "the tool may have run: look before you call it again" // the outcome is unknown

// afterRun returns advice for a caller whose method has run but whose result is lost.
func afterRun(method string) string {
	if method == protocol.MethodCallTool {
		return "the tool ran, and its result cannot be used: look before you call it again"
	}
	return "the server has answered, and its answer cannot be used"
}

// stepAfterStatus returns advice for the caller after err's HTTP status, or "" without a status.
func stepAfterStatus(method string, err error) string {
	s, ok := httpStatus(err)
	if !ok || errors.Is(err, protocol.ErrSessionGone) {
		return ""
	}
	switch {
	case s == 401:
		return "see that the credentials are there and still valid"
	case s == 403:
		return "see that the credentials permit this and have the scopes that it needs, " +
			"and that the server knows the host in the URL"
	case s >= 300 && s < 400:
		return "if you trust where it leads, use that URL"
	case (s == 408 || s >= 500) && method == protocol.MethodCallTool:
		return mayHaveRun + ", later"
	case s == 408 || s == 429 || s >= 500:
		return "try again later"
	}
	return "check that the URL is an MCP endpoint"
}

func httpStatus(err error) (status int, ok bool) {
	e, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err)
	if !ok {
		return 0, false
	}
	return e.HTTPStatus(), true
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// A ResponseError: the response does not fit the request (id, shape or resultType is wrong).
type ResponseError struct {
	Method string
	Err    error
}

// Error names the method and the fault, and says whether a tool ran.
func (e *ResponseError) Error() string {
	text := fmt.Sprintf("client: %s: unusable response: %s; ", e.Method, errPrefix.Text(e.Err))
	if _, ran := errors.AsType[*resultError](e.Err); ran {
		text += afterRun(e.Method) + "; "
	} else if e.Method == protocol.MethodCallTool {
		text += mayHaveRun + "; "
	}
	return text + "the server is at fault: tell its operator"
}

type resultError struct{ err error }

func (e *resultError) Error() string { return errPrefix.Text(e.err) }
func (e *resultError) Unwrap() error { return e.err }

// Unwrap returns the fault.
func (e *ResponseError) Unwrap() error { return e.Err }

func unexpectedResult(method string, r protocol.Result) error {
	return &ResponseError{method, fmt.Errorf("unexpected result %T", r)}
}

func timeoutError(method string, limit time.Duration) error {
	step := "call again"
	if method == protocol.MethodCallTool {
		step = mayHaveRun
	}
	return errPrefix.Errorf("%s: server took longer than %v: %w; %s, or raise Options.Timeout",
		method, limit, context.DeadlineExceeded, step)
}

// roundsExceeded is the error beyond [Options.MaxRounds]. The last questions reached no handler.
func roundsExceeded(rounds int) error {
	return errPrefix.Errorf("server still requires input after %d rounds; "+
		"start the call again, or raise Options.MaxRounds", rounds)
}

// noCommonRevision explains a failed negotiation. Some bridges to legacy servers open their own
// session if initialize is not the first message, and then refuse the client's; Era Legacy helps.
func noCommonRevision(modern, legacy error) error {
	hint := "if the server speaks a legacy revision, behind a bridge for example, " +
		"set Options.Era to protocol.Legacy"
	if errors.Is(modern, context.DeadlineExceeded) {
		hint += "; if it only starts slowly, raise StreamOptions.ProbeTimeout"
	}
	// [protocol.AsError] finds the first of the two protocol errors, so legacy comes first.
	return errPrefix.Errorf("no common revision: legacy: %w; modern: %w; %s", legacy, modern, hint)
}

// A QuestionError means that the client refused a question before it called the round's handlers.
type QuestionError struct {
	Key  string
	Kind protocol.InputKind
	// Err names an undeclared capability or a fault of the form, or is [Options.AllowURL]'s error.
	Err error
}

// An undeclaredError, within a [*QuestionError], names a capability that is not declared.
type undeclaredError struct{ missing protocol.ClientCapabilities }

func (e *undeclaredError) Error() string {
	return fmt.Sprintf("%s: capability is not declared by this client", e.missing)
}

// MissingCapabilities is for programs that pass questions on to other clients.
func (e *undeclaredError) MissingCapabilities() protocol.ClientCapabilities { return e.missing }

// Error names the question and the reason.
func (e *QuestionError) Error() string {
	text := fmt.Sprintf("client: question %.64q (%s) refused: %s", e.Key, e.Kind,
		errPrefix.Text(e.Err))
	if _, undeclared := errors.AsType[*undeclaredError](e.Err); undeclared {
		return text + "; give Options its handler, or Options.Manual the capability"
	}
	text += "; the user was not asked: tell the server's operator"
	if e.Kind == protocol.KindElicitURL {
		text += ", or see Options.AllowURL"
	}
	return text
}

// Unwrap returns the reason.
func (e *QuestionError) Unwrap() error { return e.Err }

// An AnswerError means that a question got no valid answer: its handler failed or panicked, or its
// answer is invalid. Nothing was sent. (Package roundtrip's is about a received answer.)
type AnswerError struct {
	Key  string
	Kind protocol.InputKind
	// Field is the invalid form field, empty if the fault is not in one field.
	Field string
	// Err is the handler's error, a [*PanicError], or the fault of the answer.
	Err error
}

// Error names the question and the reason.
func (e *AnswerError) Error() string {
	return fmt.Sprintf(
		"client: no answer to question %.64q (%s): %s; nothing was sent: start the call again",
		e.Key, e.Kind, errPrefix.Text(e.Err),
	)
}

// Unwrap returns the reason.
func (e *AnswerError) Unwrap() error { return e.Err }

func newAnswerError(o QuestionOrigin, kind protocol.InputKind, err error) *AnswerError {
	e := &AnswerError{Key: o.Key, Kind: kind, Err: err}
	if f, ok := errors.AsType[*form.Error](err); ok {
		e.Field = f.Field
	}
	return e
}

// A PanicError is the panic of a handler.
type PanicError struct {
	Value any
	Stack []byte
}

// Error prints the value, not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// An ExitError means that a server process has exited or was killed. It wraps [ErrStreamEnded].
type ExitError struct {
	State  *os.ProcessState // nil if the system did not report the state
	Stderr string           // last 4 KiB of standard error; untrusted text
	Err    error            // set if State is nil
}

// Error names the exit status and quotes the last line of standard error.
func (e *ExitError) Error() string {
	text := "client: server process has ended: "
	if e.State != nil {
		text += e.State.String()
	} else {
		text += errPrefix.Text(e.Err)
	}
	last := strings.TrimSpace(e.Stderr)
	last = last[strings.LastIndexByte(last, '\n')+1:]
	if last != "" {
		text += fmt.Sprintf(": %.200q", last)
	}
	return text + "; start it again"
}

// Unwrap returns [ErrStreamEnded] and Err, if any.
func (e *ExitError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrStreamEnded}
	}
	return []error{ErrStreamEnded, e.Err}
}

// explainRefusal adds a hint to a server's error if its code does not tell callers what to do.
func (c *Client) explainRefusal(e *protocol.Error) error {
	supported := e.SupportedVersions()
	switch {
	case slices.Contains(supported, c.version):
		return errPrefix.Errorf(
			"server refuses %s although it claims to support it: %w; tell the server's operator",
			c.version, e,
		)
	case len(supported) > 0:
		return errPrefix.Errorf(
			"server does not speak %s, only %s: %w; one of the two needs an update",
			c.version, versionList(supported), e,
		)
	}
	if reference, refused := refusedState(e); refused {
		return errPrefix.Errorf(
			"%w: what the server remembered of this call is no longer valid; start the call again%s",
			e, reference,
		)
	}
	return e
}

// reasonRefusedState, in error data, means that a server of this library refused a request state.
const reasonRefusedState = "invalid_request_state"

// refusedState reports whether err refuses a retry's state. reference, if any, is for operators.
func refusedState(e *protocol.Error) (reference string, refused bool) {
	var data struct {
		Reason    string `json:"reason"`
		Reference string `json:"reference"`
	}
	if e.Code != protocol.CodeInvalidParams || e.Data == nil || jsonx.Check(e.Data) != nil ||
		jsonx.Decode(e.Data, &data) != nil || data.Reason != reasonRefusedState {
		return "", false
	}
	if data.Reference != "" {
		reference = fmt.Sprintf(" (the server's log has the reason under reference %.64q)",
			data.Reference)
	}
	return reference, true
}

func versionList(list []protocol.Version) string {
	const most = 8
	var texts []string
	for _, v := range list[:min(len(list), most)] {
		texts = append(texts, fmt.Sprintf("%.16s", v))
	}
	if len(list) > most {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}
