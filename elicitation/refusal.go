package elicitation

import (
	"encoding/json"
	"time"

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
	wire := protocol.Errorf(protocol.CodeBusy, "%s", message).WithData(struct {
		RetryAfter int64  `json:"retryAfterMs"`
		Limit      string `json:"limit,omitempty"`
	}{after.Milliseconds(), limit})
	return &Error{Reason: reason, RetryAfter: after, Wire: wire, limit: limit}
}

// why is what a log may say about the cause of a refusal. What quotes the
// question may not be there: it could be a URL.
func (e *Error) why() string {
	switch {
	case e.limit != "":
		return "limit: " + e.limit
	case e.Err != nil && (e.Reason == ReasonURLPolicy || e.Reason == ReasonBus):
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
	return c.router.rejected(err, params, c.upstream, c)
}

// rejected is the one place that counts and logs a refusal. c is nil when no
// call was found.
func (r *Router) rejected(err *Error, params json.RawMessage, upstream UpstreamKey, c *Call) error {
	r.metrics.rejected(err.Reason)
	if !r.recording() {
		return err
	}
	e := Event{Kind: EventRejected, Upstream: upstream, Reason: err.Reason, Code: err.Wire.Code, Time: time.Now(), Err: err.why()}
	if c != nil {
		c.describe(&e)
	}
	e.Message = r.redacted(peekMessage(params))
	r.emit(&e)
	return err
}
