package elicitation

import (
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/internal/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

func refusal(reason Reason, wire *protocol.Error) *Error { return &Error{Reason: reason, Wire: wire} }

func failure(reason Reason, message string, err error) *Error {
	return &Error{Reason: reason, Wire: protocol.Errorf(protocol.CodeInternalError, "%s", message), Err: err}
}

// noSession refuses a question that nobody can be asked.
func noSession(reason Reason, err error) *Error {
	wire := protocol.Errorf(protocol.CodeMethodNotFound, MessageNoSession)
	return &Error{Reason: reason, Wire: wire, Err: err}
}

// invalidQuestion refuses what an upstream sent; it is told what is wrong.
func invalidQuestion(reason Reason, err error) *Error {
	return &Error{Reason: reason, Wire: protocol.Errorf(protocol.CodeInvalidParams, "Invalid elicitation request: %v", err), Err: err}
}

func later(reason Reason, message, limit string, after time.Duration) *Error {
	wire := quota.Refuse(quota.Limit(limit), after, "%s", message)
	return &Error{Reason: reason, RetryAfter: after, Wire: wire, limit: limit}
}

// why is what a log may say about the cause of a refusal. What quotes the
// question may not be there: it could be a URL.
func (e *Error) why() string {
	switch {
	case e.limit != "":
		return "limit: " + e.limit
	case e.Err != nil && (e.Reason == ReasonURLPolicy || e.Reason == ReasonBus || e.Reason == ReasonAmbiguous || e.Reason == ReasonDelivery):
		return logged(withoutQuery(e.Err.Error()))
	}
	return ""
}

func (r *Router) shuttingDown() *Error {
	return later(ReasonShutdown, "The gateway is shutting down", "", r.opts.RetryAfter)
}

// refuse records that a question was turned away before it existed, and returns
// the error as such.
func (c *Call) refuse(params json.RawMessage, err *Error) error {
	e := Event{Upstream: c.upstream}
	c.describe(&e)
	return c.router.rejected(err, e, params)
}

// rejected is the one place that counts and logs a refusal. e says where it
// happened, as far as is known.
func (r *Router) rejected(err *Error, e Event, params json.RawMessage) error {
	r.metrics.rejected(err.Reason)
	if !r.recording() {
		return err
	}
	e.Kind, e.Time, e.Reason, e.Code, e.Err = EventRejected, time.Now(), err.Reason, err.Wire.Code, err.why()
	e.Message = r.redacted(peekMessage(params))
	r.emit(&e)
	return err
}
