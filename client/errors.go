package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/errprefix"
	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// errPrefix is what every error of this package begins with, once.
const errPrefix errprefix.Prefix = "client: "

var (
	// ErrClosed says that the client was closed before or during the call.
	ErrClosed = errors.New("client: closed; make a new one to go on")
	// ErrUndeclared is within a [*QuestionError] whose question needs a
	// capability that this client does not declare.
	ErrUndeclared = errors.New("capability is not declared by this client")
	// ErrStreamEnded is within the errors of a [Stream] whose server has closed
	// its end, or which can no longer be read or written. What ran is lost and
	// may be repeated on another stream (basic/transports/stdio, "Unexpected
	// Termination").
	ErrStreamEnded = errors.New("client: stream has ended; start the server again")
	// ErrSubscriptionEnded says that the server ended a subscription without
	// answering its request.
	ErrSubscriptionEnded = errors.New("client: server has ended the subscription; subscribe again")
	// ErrMessageTooLong is within the error for a message above
	// [StreamOptions.MaxLineBytes].
	ErrMessageTooLong = errors.New("client: message is too long; see StreamOptions.MaxLineBytes")
	// ErrOverrun says that a subscription was given up because notifications
	// came faster than they were taken. Subscribe anew and look at everything:
	// what was lost is not known.
	ErrOverrun = errors.New("client: notifications come faster than they are taken; " +
		"subscribe again and read everything anew")
)

// A TransportError says that a request got no response: what went wrong on the
// way, as opposed to what the server said, which is a [*protocol.Error]. The
// server may or may not have acted on the request.
type TransportError struct {
	Method string
	Err    error
}

// Error names the method and the cause, and says what to do about it.
func (e *TransportError) Error() string {
	text := string(errPrefix) + e.Method + ": no response: " + errPrefix.Text(e.Err)
	if step := e.nextStep(); step != "" {
		text += "; " + step
	}
	return text
}

// nextStep is empty where the cause says it already.
func (e *TransportError) nextStep() string {
	if step := stepAfterStatus(e.Err); step != "" {
		return step
	}
	switch {
	case errors.Is(e.Err, protocol.ErrSessionGone):
		return "the next call opens a new session"
	case errors.Is(e.Err, ErrClosed), errors.Is(e.Err, ErrStreamEnded),
		errors.Is(e.Err, ErrMessageTooLong):
		return ""
	case e.Method == protocol.MethodCallTool:
		return "the tool may have run: look before you call it again"
	}
	return "see that the server can be reached and call again"
}

// stepAfterStatus says what to do about an HTTP status, empty where err is none.
func stepAfterStatus(err error) string {
	status, ok := errors.AsType[interface {
		error
		HTTPStatus() int
	}](err)
	if !ok || errors.Is(err, protocol.ErrSessionGone) {
		return ""
	}
	switch s := status.HTTPStatus(); {
	case s == 401 || s == 403:
		return "see that the credentials are there and still valid"
	case s >= 300 && s < 400:
		return "if you trust where it leads, use that URL"
	case s == 408 || s == 429 || s >= 500:
		return "try again later"
	}
	return "see that the URL is that of an MCP endpoint"
}

// Unwrap returns the cause.
func (e *TransportError) Unwrap() error { return e.Err }

// A ResponseError says that a response came which is not an answer to the
// request: another id, a result of the wrong shape, an unknown resultType.
type ResponseError struct {
	Method string
	Err    error
}

// Error names the method and what is wrong.
func (e *ResponseError) Error() string {
	return fmt.Sprintf(
		"client: %s: unusable response: %s; the server is at fault: tell those who run it",
		e.Method, errPrefix.Text(e.Err),
	)
}

// Unwrap returns what is wrong.
func (e *ResponseError) Unwrap() error { return e.Err }

// A TimeoutError says that the server took longer over a call than
// [Options.Timeout], not counting the time that people took. It is a
// [context.DeadlineExceeded].
type TimeoutError struct {
	Method string
	Limit  time.Duration
}

// Error names the method and the limit.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf(
		"client: %s: server took longer than %v; call again, or raise Options.Timeout",
		e.Method, e.Limit,
	)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Timeout returns true, as net.Error would.
func (e *TimeoutError) Timeout() bool { return true }

// A NegotiationError says that a server speaks neither a modern nor a legacy
// revision that this client does, as far as can be told. It is no verdict: the
// next call tries again.
type NegotiationError struct {
	// Modern is how it refused to say what it speaks (server/discover).
	Modern error
	// Legacy is how it refused to open a session (initialize).
	Legacy error
}

// Error names both reasons, and the option that may help. Some servers can only
// be spoken to in legacy revisions if nothing else was tried before: bridges
// open a session of their own for the first message that is no initialize, and
// refuse the client's.
func (e *NegotiationError) Error() string {
	hint := "if the server speaks a legacy revision, behind a bridge for example, " +
		"set Options.Era to protocol.Legacy"
	if errors.Is(e.Modern, context.DeadlineExceeded) {
		hint += "; if it only starts slowly, raise StreamOptions.ProbeTimeout"
	}
	return fmt.Sprintf(
		"client: no common revision: modern: %s; legacy: %s; %s",
		errPrefix.Text(e.Modern), errPrefix.Text(e.Legacy), hint,
	)
}

// Unwrap returns both.
func (e *NegotiationError) Unwrap() []error { return []error{e.Legacy, e.Modern} }

// A PagesError says that a list does not end: a cursor came twice, or there
// are more than [MaxPages] pages.
type PagesError struct {
	Method string
	// Cursor is the one that came twice, empty when none did.
	Cursor string
}

// Error names the method and what is wrong.
func (e *PagesError) Error() string {
	if e.Cursor != "" {
		return fmt.Sprintf(
			"client: %s: server sent cursor %.64q twice; "+
				"the list before it is whole: tell those who run the server",
			e.Method, e.Cursor,
		)
	}
	return fmt.Sprintf(
		"client: %s: more than %d pages; the list before them can be used", e.Method, MaxPages,
	)
}

// A RoundsExceededError says that a server asked again after as many rounds as
// [Options.MaxRounds] allows. Nobody was asked the last questions.
type RoundsExceededError struct {
	// Rounds is how many rounds were answered.
	Rounds int
	// Last is what the server answered last. Its state can still be sent with
	// answers in a call of one's own.
	Last *protocol.InputRequiredResult
}

// Error names the number of rounds.
func (e *RoundsExceededError) Error() string {
	return fmt.Sprintf(
		"client: server still requires input after %d rounds; "+
			"start the call again, or raise Options.MaxRounds",
		e.Rounds,
	)
}

// A QuestionError says that a server asked something that this client puts to
// nobody. Nobody was asked the other questions of the round either.
type QuestionError struct {
	Key  string
	Kind protocol.InputKind
	// Err is [ErrUndeclared], the refusal of [Options.AllowURL], or what is
	// wrong with the form.
	Err error
}

// Error names the question and the reason.
func (e *QuestionError) Error() string {
	text := fmt.Sprintf(
		"client: question %.64q (%s) refused: %s", e.Key, e.Kind, errPrefix.Text(e.Err),
	)
	switch {
	case errors.Is(e.Err, ErrUndeclared):
		return text + "; give Options its handler, or Options.Manual the capability"
	case e.Kind == protocol.KindElicitURL:
		return text + "; nobody was asked: tell those who run the server, or see Options.AllowURL"
	}
	return text + "; nobody was asked: tell those who run the server"
}

// Unwrap returns the reason.
func (e *QuestionError) Unwrap() error { return e.Err }

// An AnswerError says that a question got no answer that may be sent: its
// handler failed or panicked, or the answer is not valid. Nothing was sent.
type AnswerError struct {
	Key  string
	Kind protocol.InputKind
	// Field is the form field that is not valid, empty when no field is to
	// blame.
	Field string
	// Err is the handler's error, a [*PanicError], or what is wrong.
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

func newAnswerError(o Origin, kind protocol.InputKind, err error) *AnswerError {
	e := &AnswerError{Key: o.Key, Kind: kind, Err: err}
	if f, ok := errors.AsType[*form.Error](err); ok {
		e.Field = f.Field
	}
	return e
}

// A PanicError is what a handler panicked with.
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

// An ExitError says that a server's process has exited, of itself or because
// it was killed. It is an [ErrStreamEnded].
type ExitError struct {
	// State is how it ended, nil when the system could not tell.
	State *os.ProcessState
	// Stderr is the end of what it wrote to standard error, at most 4 KiB. It
	// must not be trusted, and may hold anything.
	Stderr string
	// Err is set when State is nil.
	Err error
}

// Success reports whether the status is 0.
func (e *ExitError) Success() bool { return e.State != nil && e.State.Success() }

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

// Unwrap returns [ErrStreamEnded] and, if there is one, Err.
func (e *ExitError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrStreamEnded}
	}
	return []error{ErrStreamEnded, e.Err}
}

// explainRefusal returns what the server said, with a hint where the code alone would
// leave a caller in the dark.
func (c *Client) explainRefusal(e *protocol.Error) error {
	if c.opts.DraftErrorCodes {
		e = e.Final()
	}
	supported := e.SupportedVersions()
	switch {
	case slices.Contains(supported, c.version):
		return errPrefix.Errorf(
			"server refuses %s although it claims to speak it: %w; tell those who run the server",
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

// reasonRefusedState is how servers built with this library name the reason for
// which they refuse a request state, in the data of an error whose code and
// message say no more than that.
const reasonRefusedState = "invalid_request_state"

// refusedState reports whether a server refuses the state that a retry carried,
// and returns how to ask its operator about it, empty where it gave no
// reference.
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
		reference = fmt.Sprintf(
			" (the server's log has the reason under reference %.64q)", data.Reference,
		)
	}
	return reference, true
}

// versionList prints at most a few of the versions that a peer claims.
func versionList(list []protocol.Version) string {
	const most = 8
	var b strings.Builder
	for i, v := range list {
		if i == most {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.16s", v)
	}
	return b.String()
}
