package elicitation

import (
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Reason says why a question was refused or failed. It is a label of the metrics, a field of the
// log, and an error that [errors.Is] finds in every error of this package's API:
//
//	if errors.Is(err, elicitation.ReasonTimeout) { ... }
//
// Five reasons also match a more general one: ReasonMode matches ReasonCapability; ReasonTooLarge,
// ReasonSecret and ReasonURLPolicy match ReasonInvalidQuestion; ReasonInvalidContent matches
// ReasonInvalidReply. A question that ended with its session also matches ReasonNoSession, and one
// cancelled by a shutdown ReasonShutdown.
type Reason string

// Error returns the reason as in logs and metrics.
func (r Reason) Error() string { return string(r) }

// Is reports whether the reason is a special case of target.
func (r Reason) Is(target error) bool {
	switch r {
	case ReasonMode:
		return target == ReasonCapability
	case ReasonTooLarge, ReasonSecret, ReasonURLPolicy:
		return target == ReasonInvalidQuestion
	case ReasonInvalidContent:
		return target == ReasonInvalidReply
	}
	return false
}

// Reasons of refusals: nothing was sent.
const (
	ReasonNoSession       Reason = "no_session"       // no call, or its session or request is over
	ReasonAmbiguous       Reason = "ambiguous_origin" // several calls could have caused it
	ReasonCapability      Reason = "capability"       // the client did not declare elicitation
	ReasonMode            Reason = "mode"             // the client did not declare this mode
	ReasonInvalidQuestion Reason = "invalid_question" // the parameters are malformed
	ReasonTooLarge        Reason = "too_large"        // the parameters are over a limit
	ReasonSecret          Reason = "secret"           // the form seems to ask for a secret
	ReasonURLPolicy       Reason = "url_policy"       // the URL is not allowed
	ReasonCapacity        Reason = "capacity"         // too many questions are pending
	ReasonShutdown        Reason = "shutdown"         // the router is shutting down
)

// Reasons of failures of a question that existed.
const (
	ReasonDelivery       Reason = "delivery"        // the transport did not take the question
	ReasonClientError    Reason = "client_error"    // the client answered with a JSON-RPC error
	ReasonInvalidReply   Reason = "invalid_reply"   // the client's result is malformed or too large
	ReasonInvalidContent Reason = "invalid_content" // accepted content does not fit the form
)

// Reasons of questions that timed out or were withdrawn.
const (
	ReasonTimeout   Reason = "timeout"   // nobody answered in time
	ReasonCancelled Reason = "cancelled" // see Error.By
)

// Values of [Error].By, also a label of the metrics: what withdrew a question.
const (
	byUpstream = "upstream" // the server that asked
	byClient   = "client"   // the client abandoned the request that caused the question
	byCallEnd  = "call"     // the call ended without waiting for the answer
	bySession  = "session"  // the client's session ended
	byShutdown = "shutdown" // the router shut down
)

// An Error says why a question has no answer. Its text is the message for the upstream;
// [protocol.AsError] returns the wire error, and [errors.Is] finds its [Reason].
type Error struct {
	Reason Reason
	// By is the cause of a withdrawal, with [ReasonCancelled]: "upstream" (the server that asked),
	// "client" (it abandoned its request), "call" or "session" (it ended), or "shutdown".
	By         string
	RequestID  string          // the router's id of the question; empty for a refusal
	RetryAfter time.Duration   // when to ask again; 0 means never
	Wire       *protocol.Error // the error for the upstream, without details of Err
	Err        error           // the cause, for the host only; may be nil

	limit string // name of the limit reached
}

func (e *Error) Error() string { return e.Wire.Message }

// Unwrap returns the wire error, the reasons, and the cause.
func (e *Error) Unwrap() []error {
	all := append(make([]error, 0, 4), e.Wire)
	if e.Reason != "" {
		all = append(all, e.Reason)
	}
	switch e.By {
	case bySession:
		all = append(all, ReasonNoSession)
	case byShutdown:
		all = append(all, ReasonShutdown)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

// logCause returns a refusal's cause for the log, without errors that may quote the question.
func (e *Error) logCause() string {
	if e.limit != "" {
		return "limit: " + e.limit
	}
	if e.Err == nil {
		return ""
	}
	switch e.Reason {
	case ReasonURLPolicy, ReasonAmbiguous, ReasonDelivery:
		return escapeForLog(redact.HideURLSecrets(e.Err.Error()))
	}
	return ""
}

func newFailure(reason Reason, message string, err error) *Error {
	wire := protocol.Errorf(protocol.CodeInternalError, "%s", message)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

const textNoSession = "No client session available"

func noSessionError(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeMethodNotFound, textNoSession)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

func invalidQuestionError(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeInvalidParams, "Invalid elicitation request: %v", err)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// retryLaterError returns a refusal with RetryAfter. limit names the limit reached, if any.
func retryLaterError(reason Reason, message, limit string) *Error {
	wire := quota.Refuse(quota.Limit(limit), retryAfter, "%s", message)
	return &Error{Reason: reason, RetryAfter: retryAfter, Wire: wire, limit: limit}
}

func shutdownError() *Error {
	return retryLaterError(ReasonShutdown, "The gateway is shutting down", "")
}
