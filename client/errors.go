package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/protocol"
)

var (
	// ErrClosed says that the client was closed before or during the call.
	ErrClosed = errors.New("client: closed")
	// ErrUndeclared is within a [*QuestionError] whose question needs a
	// capability that this client does not declare.
	ErrUndeclared = errors.New("capability is not declared by this client")
)

// A TransportError says that a request got no response: what went wrong on the
// way, as opposed to what the server said, which is a [*protocol.Error]. The
// server may or may not have acted on the request.
type TransportError struct {
	Method string
	Err    error
}

// Error names the method and the cause.
func (e *TransportError) Error() string {
	return fmt.Sprintf("client: %s: no response: %v", e.Method, e.Err)
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
	return fmt.Sprintf("client: %s: unusable response: %v", e.Method, e.Err)
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
	return fmt.Sprintf("client: %s: server took longer than %v", e.Method, e.Limit)
}

// Unwrap returns [context.DeadlineExceeded].
func (e *TimeoutError) Unwrap() error { return context.DeadlineExceeded }

// Timeout returns true, as net.Error would.
func (e *TimeoutError) Timeout() bool { return true }

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
	return fmt.Sprintf("client: server still requires input after %d rounds", e.Rounds)
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
	return fmt.Sprintf("client: question %.64q (%s) refused: %v", e.Key, e.Kind, e.Err)
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
	return fmt.Sprintf("client: no answer to question %.64q (%s): %v", e.Key, e.Kind, e.Err)
}

// Unwrap returns the reason.
func (e *AnswerError) Unwrap() error { return e.Err }

func answerError(o Origin, kind protocol.InputKind, err error) *AnswerError {
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

// said returns what the server said, with a hint where the code alone would
// leave a caller in the dark.
func (c *Client) said(e *protocol.Error) error {
	if c.opts.DraftErrorCodes {
		e = e.Final()
	}
	supported := e.SupportedVersions()
	switch {
	case slices.Contains(supported, c.version):
		return fmt.Errorf("client: server refuses %s although it claims to speak it: %w", c.version, e)
	case len(supported) > 0:
		return fmt.Errorf("client: server does not speak %s, only %s: %w", c.version, versionList(supported), e)
	}
	return e
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
