package elicitation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"go.uber.org/zap"
)

// An EventKind is the name of an event, as logs have it.
type EventKind string

// The events. Of each question that exists there is one EventCreated, at most
// one EventDelivered after it, and then exactly one of the next four.
const (
	EventCreated   EventKind = "elicitation.created"
	EventDelivered EventKind = "elicitation.delivered"
	EventCompleted EventKind = "elicitation.completed"
	EventTimeout   EventKind = "elicitation.timeout"
	EventError     EventKind = "elicitation.error"
	EventCancelled EventKind = "elicitation.cancelled"
	// EventRejected tells of a question that was turned away: it never existed.
	EventRejected EventKind = "elicitation.rejected"
	// EventLeaked tells of a call that is over and that its host has not ended.
	EventLeaked EventKind = "elicitation.leaked"
)

// An Event tells what happened to a question. It never holds answers or URLs.
type Event struct {
	Kind EventKind
	Time time.Time
	// RequestID is the router's id of the question; empty in EventRejected and
	// EventLeaked.
	RequestID string
	// Upstream and Session are the two ends. Session is SessionInfo.LogName; it
	// is empty when no call was found.
	Upstream UpstreamKey
	Session  string
	// Principal, CallID and Request are those of the [Origin].
	Principal Principal
	CallID    string
	Request   protocol.ID
	// Mode is the kind of question; empty in EventRejected and EventLeaked.
	Mode protocol.InputKind
	// Message is the text of the question, redacted, escaped and cut.
	Message string
	// Action is what the person did, in EventCompleted.
	Action protocol.ElicitAction
	// Reason is set in EventError and EventRejected, By in EventCancelled.
	Reason Reason
	By     CancelledBy
	// Code is the JSON-RPC code that the upstream gets, 0 for an answer.
	Code int64
	// Violation says how accepted content does not fit the form, without its
	// values; empty when it fits or was not looked at.
	Violation string
	// Err says more about a refusal or a failure, fit for logs. Of the error of an
	// [Asker], which may quote the answer, it has the kind alone.
	Err string
	// Duration is the time since EventCreated; in EventLeaked, since Begin.
	Duration time.Duration
}

// An AuditSink gets every event, for a record that must not depend on log levels,
// or for logs and traces of another kind than those built in.
type AuditSink interface {
	// Audit is called in the order of a question's events, while nothing else
	// happens to that question; it returns promptly and does not call the
	// router. Calls about different questions may overlap.
	Audit(e Event)
}

// recordsEvents tells whether anybody wants events.
func (r *Router) recordsEvents() bool { return r.opts.Logger != nil || r.opts.Audit != nil }

func (r *Router) emitEvent(e *Event) {
	if r.opts.Logger != nil {
		r.callHost("logger", func() { writeLog(r.opts.Logger, e) })
	}
	if r.opts.Audit != nil {
		r.callHost("audit sink", func() { r.opts.Audit.Audit(*e) })
	}
}

// callHost runs code of the host's where a panic would leave a question without
// its end, locked, or would end the process from a timer. The panic is logged.
func (r *Router) callHost(what string, f func()) {
	defer func() {
		p := recover()
		if p == nil || r.opts.Logger == nil {
			return
		}
		defer func() { _ = recover() }() // it may be the logger that panics
		kind := fmt.Sprintf("%T", p)     // the text may hold an answer
		r.opts.Logger.Error("elicitation: "+what+" panicked", zap.String("error", kind), zap.Stack("stack"))
	}()
	f()
}

// redactTransportError makes fit for logs what a transport says of a question that it could not
// take: it may quote it.
func (r *Router) redactTransportError(err error) (text string) {
	r.callHost("redactor", func() { text = r.redactMessage(hideURLSecrets(err.Error())) })
	return text
}

// describeIn fills in what a call knows.
func (c *Call) describeIn(e *Event) {
	e.Session, e.Principal, e.CallID, e.Request = c.origin.Session.logName, c.origin.Principal, c.origin.CallID, c.origin.Request
}

// emitStateLocked tells of a change of state. e.mu is held.
func (e *pendingQuestion) emitStateLocked(kind EventKind, end *outcome) {
	if !e.router.recordsEvents() {
		return
	}
	ev := Event{
		Kind: kind, Time: time.Now(), RequestID: hexID(e.id), Upstream: e.call.upstream, Mode: e.kind, Message: e.message,
	}
	ev.Duration = ev.Time.Sub(e.created)
	e.call.describeIn(&ev)
	if end != nil {
		ev.Violation = escapeForLog(end.detail)
		if end.result != nil {
			ev.Action = end.result.Action
		}
		if err := end.err; err != nil {
			ev.By, ev.Code = err.By, err.Wire.Code
			if end.state == stateFailed {
				ev.Reason = err.Reason
			}
			ev.Err = e.explainFailure(err)
		}
	}
	e.router.emitEvent(&ev)
}

// explainFailure says what caused the end of a question, fit for logs.
func (e *pendingQuestion) explainFailure(err *Error) string {
	switch {
	case err.Err == nil:
		return ""
	case err.Reason == ReasonDelivery && e.call.via.asker != nil:
		return describeErrorKind(err.Err) // an SDK's error may quote the answer that it could not read
	case err.Reason == ReasonDelivery, err.Reason == ReasonStreamLost:
		return e.router.redactTransportError(err.Err)
	case err.Reason == ReasonInvalidReply:
		return escapeForLog(err.Err.Error()) // a text of ours that quotes nothing
	}
	return ""
}

// describeErrorKind describes an error without its text: as one that everybody knows, by the
// operating system's number, or else by the type of what lies at its root.
func describeErrorKind(err error) string {
	for _, known := range [...]error{
		errStuck, context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe,
		net.ErrClosed, os.ErrDeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return fmt.Sprintf("error of type %T", err)
}
