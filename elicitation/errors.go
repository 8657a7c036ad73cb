package elicitation

import (
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
)

// A Reason says why a question was refused or failed. It is a label of the metrics, a field of the
// log, and an error that [errors.Is] finds in an [*Error] and in those of [Router.Attach],
// [Router.Begin] and the like:
//
//	if errors.Is(err, elicitation.ReasonTimeout) { ... }
//
// Five reasons also match a more general one: ReasonMode is a ReasonCapability; ReasonTooLarge,
// ReasonSecret and ReasonURLPolicy are a ReasonInvalidQuestion; ReasonInvalidContent is a
// ReasonInvalidReply. A question that ended with its session also matches ReasonNoSession, and one
// that a shutdown cancelled ReasonShutdown.
type Reason string

// Error returns the reason as logs and metrics have it.
func (r Reason) Error() string { return string(r) }

// Is reports whether the reason is a special case of target.
func (r Reason) Is(target error) bool {
	general := Reason("")
	switch r {
	case ReasonMode:
		general = ReasonCapability
	case ReasonTooLarge, ReasonSecret, ReasonURLPolicy:
		general = ReasonInvalidQuestion
	case ReasonInvalidContent:
		general = ReasonInvalidReply
	}
	return general != "" && target == general
}

// The reasons of refusals: nothing was sent.
const (
	ReasonNoSession       Reason = "no_session"       // no call, or its session or request is over
	ReasonAmbiguous       Reason = "ambiguous_origin" // several calls could have caused it
	ReasonCapability      Reason = "capability"       // the client did not declare elicitation
	ReasonMode            Reason = "mode"             // the client did not declare this mode
	ReasonInvalidQuestion Reason = "invalid_question" // the parameters are malformed
	ReasonTooLarge        Reason = "too_large"        // the parameters are over a limit
	ReasonSecret          Reason = "secret"           // the form looks as if it asked for a secret
	ReasonURLPolicy       Reason = "url_policy"       // the URL is not allowed
	ReasonCapacity        Reason = "capacity"         // too many questions are pending
	ReasonShutdown        Reason = "shutdown"         // the router is shutting down
)

// The reasons of failures of a question that existed.
const (
	ReasonDelivery       Reason = "delivery"        // the transport did not take the question
	ReasonClientError    Reason = "client_error"    // the client answered with a JSON-RPC error
	ReasonInvalidReply   Reason = "invalid_reply"   // the client's result is malformed or too large
	ReasonInvalidContent Reason = "invalid_content" // accepted content does not fit the form
)

// The reasons of the other two ends.
const (
	ReasonTimeout   Reason = "timeout"   // nobody answered in time
	ReasonCancelled Reason = "cancelled" // see Error.By
)

// Who or what withdrew a question: [Error].By, and the label of the metrics.
const (
	byUpstream = "upstream" // the server that asked
	byClient   = "client"   // the client abandoned the request that caused the question
	byCallEnd  = "call"     // the call ended without waiting
	bySession  = "session"  // the client's session ended
	byShutdown = "shutdown" // the router shut down
)

// An Error says why a question has no answer. Its text is the message for the upstream;
// [protocol.AsError] returns the error for the wire, and [errors.Is] finds its [Reason].
type Error struct {
	Reason Reason
	// By says what withdrew the question, if Reason is [ReasonCancelled]: "upstream", the server
	// that asked; "client", which abandoned the request that caused the question; "call", which
	// ended without waiting; "session", which ended; or "shutdown".
	By string
	// RequestID is the router's id of the question; empty for a refusal.
	RequestID string
	// RetryAfter is when to ask again. 0: never.
	RetryAfter time.Duration
	// Wire is the error for the upstream. It holds nothing of Err.
	Wire *protocol.Error
	// Err is the cause, for the host only. It may be nil.
	Err error

	limit string // the name of the one that is reached
}

// Error returns the message for the upstream.
func (e *Error) Error() string { return e.Wire.Message }

// Unwrap returns the error for the wire, the reasons, and the cause.
func (e *Error) Unwrap() []error {
	all := append(make([]error, 0, 4), e.Wire)
	if e.Reason != "" {
		all = append(all, e.Reason)
	}
	if e.By == bySession {
		all = append(all, ReasonNoSession)
	}
	if e.By == byShutdown {
		all = append(all, ReasonShutdown)
	}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

// logCause returns the cause of a refusal for the log, without causes that may quote the question.
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

// noSessionError refuses a question that no client can be asked.
func noSessionError(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeMethodNotFound, textNoSession)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// invalidQuestionError refuses a question. The upstream gets the text of err.
func invalidQuestionError(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeInvalidParams, "Invalid elicitation request: %v", err)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// retryLaterError is a refusal with a time to retry. limit names the limit that is reached, if any.
func retryLaterError(reason Reason, message, limit string) *Error {
	wire := quota.Refuse(quota.Limit(limit), retryAfter, "%s", message)
	return &Error{Reason: reason, RetryAfter: retryAfter, Wire: wire, limit: limit}
}

func shutdownError() *Error {
	return retryLaterError(ReasonShutdown, "The gateway is shutting down", "")
}
