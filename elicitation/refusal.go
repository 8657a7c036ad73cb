package elicitation

import (
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

func newRefusal(reason Reason, wire *protocol.Error) *Error {
	return &Error{Reason: reason, Wire: wire}
}

func newFailure(reason Reason, message string, err error) *Error {
	return &Error{Reason: reason, Wire: protocol.Errorf(protocol.CodeInternalError, "%s", message), Err: err}
}

// noSessionError refuses a question that nobody can be asked.
func noSessionError(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeMethodNotFound, MessageNoSession)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// invalidQuestionError refuses what an upstream sent; it is told what is wrong.
func invalidQuestionError(reason Reason, err error) *Error {
	return &Error{Reason: reason, Wire: protocol.Errorf(protocol.CodeInvalidParams, "Invalid elicitation request: %v", err), Err: err}
}

func retryLaterError(reason Reason, message, limit string, after time.Duration) *Error {
	wire := quota.Refuse(quota.Limit(limit), after, "%s", message)
	return &Error{Reason: reason, RetryAfter: after, Wire: wire, limit: limit}
}

// logCause is what a log may say about the cause of a refusal. What quotes the
// question may not be there: it could be a URL.
func (e *Error) logCause() string {
	switch {
	case e.limit != "":
		return "limit: " + e.limit
	case e.Err != nil && (e.Reason == ReasonURLPolicy || e.Reason == ReasonBus || e.Reason == ReasonAmbiguous || e.Reason == ReasonDelivery):
		return escapeForLog(hideURLSecrets(e.Err.Error()))
	}
	return ""
}

func (r *Router) shutdownError() *Error {
	return retryLaterError(ReasonShutdown, "The gateway is shutting down", "", r.opts.RetryAfter)
}

// rejectQuestion records that a question was turned away before it existed, and returns
// the error as such.
func (c *Call) rejectQuestion(params json.RawMessage, err *Error) error {
	e := Event{Upstream: c.upstream}
	c.describeIn(&e)
	return c.router.recordRejection(err, e, params)
}

// recordRejection is the one place that counts and logs a refusal. e says where it
// happened, as far as is known.
func (r *Router) recordRejection(err *Error, e Event, params json.RawMessage) error {
	r.metrics.countRejected(err.Reason)
	if !r.recordsEvents() {
		return err
	}
	e.Kind, e.Time, e.Reason, e.Code, e.Err = EventRejected, time.Now(), err.Reason, err.Wire.Code, err.logCause()
	e.Message = r.redactMessage(peekMessage(params))
	r.emitEvent(&e)
	return err
}
