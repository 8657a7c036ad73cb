package elicitation

import (
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// Messages that hosts and upstreams may rely on.
const (
	// MessageNoSession is the text of the refusal when no client can be asked.
	MessageNoSession = "No client session available"
	// MessageTimeout is the text of the error when nobody answered in time.
	MessageTimeout = "Elicitation timed out"
)

// A Reason says why a question was refused or failed. It is the label of the
// metrics and a field of the log.
type Reason string

// The reasons of refusals: the question never existed and nothing was sent.
const (
	ReasonNoSession       Reason = "no_session"       // no call, or its session or request is over
	ReasonAmbiguous       Reason = "ambiguous_origin" // several calls could have caused it
	ReasonCapability      Reason = "capability"       // the client did not declare elicitation
	ReasonMode            Reason = "mode"             // the client did not declare this mode
	ReasonInvalidQuestion Reason = "invalid_question" // the parameters are malformed
	ReasonTooLarge        Reason = "too_large"        // the parameters are over a limit
	ReasonURLPolicy       Reason = "url_policy"       // the URL is not allowed
	ReasonCapacity        Reason = "capacity"         // too many questions are pending
	ReasonShutdown        Reason = "shutdown"         // the router is shutting down
	ReasonBus             Reason = "bus"              // other replicas could not be told
)

// The reasons of failures of a question that existed.
const (
	ReasonDelivery       Reason = "delivery"        // the transport did not take the question
	ReasonStreamLost     Reason = "stream_lost"     // the host lost the way back
	ReasonClientError    Reason = "client_error"    // the client answered with a JSON-RPC error
	ReasonInvalidReply   Reason = "invalid_reply"   // the client's result is malformed or too large
	ReasonInvalidContent Reason = "invalid_content" // accepted content does not fit the form
)

// The reasons of the other two ends.
const (
	ReasonTimeout   Reason = "timeout"   // nobody answered in time
	ReasonCancelled Reason = "cancelled" // see CancelledBy
)

// CancelledBy says who or what withdrew a question.
type CancelledBy string

// Who cancels.
const (
	ByUpstream CancelledBy = "upstream" // the server that asked
	ByClient   CancelledBy = "client"   // the client abandoned the request that caused the question
	ByCallEnd  CancelledBy = "call"     // the call ended without waiting
	BySession  CancelledBy = "session"  // the client's session ended
	ByShutdown CancelledBy = "shutdown" // the router shut down
)

// The kinds of [*Error], for [errors.Is].
var (
	ErrNoSession       = errors.New("elicitation: no client session available")
	ErrAmbiguousOrigin = errors.New("elicitation: more than one call could have asked")
	ErrNotDeclared     = errors.New("elicitation: the client did not declare it")
	ErrInvalidQuestion = errors.New("elicitation: the question is not valid")
	ErrCapacity        = errors.New("elicitation: too many questions are pending")
	ErrShutdown        = errors.New("elicitation: the router is shut down")
	ErrBus             = errors.New("elicitation: the bus failed")
	ErrTimeout         = errors.New("elicitation: timed out")
	ErrDelivery        = errors.New("elicitation: the client could not be reached")
	ErrClient          = errors.New("elicitation: the client answered with an error")
	ErrInvalidReply    = errors.New("elicitation: the client's answer is not valid")
	ErrCancelled       = errors.New("elicitation: cancelled")
)

// The errors of a [Bus].
var (
	// ErrNoOwner says that nobody owns the key: it never was claimed, was
	// released, or its owner died and the claim has been freed since.
	ErrNoOwner = errors.New("elicitation bus: nobody owns the key")
	// ErrOwnerDead says that the replica that owns the key is no longer there.
	ErrOwnerDead = errors.New("elicitation bus: the replica that owns the key is gone")
	// ErrClaimed says that another replica owns the key.
	ErrClaimed = errors.New("elicitation bus: another replica owns the key")
	// ErrBusClosed says that this replica has left the bus.
	ErrBusClosed = errors.New("elicitation bus: closed")
)

// An Error says why a question has no answer. Its text is the message for the
// upstream; [protocol.AsError] returns the error for the wire, and [errors.Is]
// matches the kinds.
type Error struct {
	Reason Reason
	// By is set when Reason is [ReasonCancelled].
	By CancelledBy
	// RequestID is the router's id of the question; empty for a refusal.
	RequestID string
	// RetryAfter is when it makes sense to ask again; 0 when it does not.
	RetryAfter time.Duration
	// Wire is the error for the upstream. It holds nothing of Err.
	Wire *protocol.Error
	// Err is the cause, for the host alone; it may be nil.
	Err error

	limit string // the name of the one that is reached
}

// Error returns the message for the upstream.
func (e *Error) Error() string { return e.Wire.Message }

// Unwrap returns the error for the wire, the kinds, and the cause.
func (e *Error) Unwrap() []error {
	all := append(make([]error, 0, 4), e.Wire)
	if kind := e.errorKind(); kind != nil {
		all = append(all, kind)
	}
	if e.By == BySession {
		all = append(all, ErrNoSession)
	}
	if e.By == ByShutdown {
		all = append(all, ErrShutdown)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

func (e *Error) errorKind() error {
	switch e.Reason {
	case ReasonNoSession:
		return ErrNoSession
	case ReasonAmbiguous:
		return ErrAmbiguousOrigin
	case ReasonCapability, ReasonMode:
		return ErrNotDeclared
	case ReasonInvalidQuestion, ReasonTooLarge, ReasonURLPolicy:
		return ErrInvalidQuestion
	case ReasonCapacity:
		return ErrCapacity
	case ReasonShutdown:
		return ErrShutdown
	case ReasonBus:
		return ErrBus
	case ReasonTimeout:
		return ErrTimeout
	case ReasonDelivery, ReasonStreamLost:
		return ErrDelivery
	case ReasonClientError:
		return ErrClient
	case ReasonInvalidReply, ReasonInvalidContent:
		return ErrInvalidReply
	case ReasonCancelled:
		return ErrCancelled
	}
	return nil
}

// logCause is what a log may say about the cause of a refusal. A cause that quotes the
// question may not be there: it could be a URL.
func (e *Error) logCause() string {
	if e.limit != "" {
		return "limit: " + e.limit
	}
	if e.Err == nil {
		return ""
	}
	switch e.Reason {
	case ReasonURLPolicy, ReasonBus, ReasonAmbiguous, ReasonDelivery:
		return escapeForLog(hideURLSecrets(e.Err.Error()))
	}
	return ""
}

func newRefusal(reason Reason, wire *protocol.Error) *Error {
	return &Error{Reason: reason, Wire: wire}
}

func newFailure(reason Reason, message string, err error) *Error {
	wire := protocol.Errorf(protocol.CodeInternalError, "%s", message)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// noSessionError refuses a question that no client can be asked.
func noSessionError(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeMethodNotFound, MessageNoSession)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// invalidQuestionError refuses what an upstream sent. The upstream gets the text of err.
func invalidQuestionError(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeInvalidParams, "Invalid elicitation request: %v", err)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// retryLaterError refuses what may be accepted after some time. limit names the limit
// that is reached, if it is one.
func retryLaterError(reason Reason, message, limit string, after time.Duration) *Error {
	wire := quota.Refuse(quota.Limit(limit), after, "%s", message)
	return &Error{Reason: reason, RetryAfter: after, Wire: wire, limit: limit}
}

func (r *Router) shutdownError() *Error {
	return retryLaterError(ReasonShutdown, "The gateway is shutting down", "", r.opts.RetryAfter)
}
