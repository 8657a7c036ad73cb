package elicitation

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// An AuditKind is the name of an event, as logs have it.
type AuditKind string

// The events. Of each question that exists there is one EventCreated, at most
// one EventDelivered after it, and then exactly one of the next four.
const (
	EventCreated   AuditKind = "elicitation.created"
	EventDelivered AuditKind = "elicitation.delivered"
	EventCompleted AuditKind = "elicitation.completed"
	EventTimeout   AuditKind = "elicitation.timeout"
	EventError     AuditKind = "elicitation.error"
	EventCancelled AuditKind = "elicitation.cancelled"
	// EventRejected reports a question that was refused: it never existed. So does one
	// of a call that [Router.Begin] refused.
	EventRejected AuditKind = "elicitation.rejected"
	// EventLeaked reports a call that is over and that its host has not ended. The router
	// has.
	EventLeaked AuditKind = "elicitation.leaked"
	// EventCompletionDropped reports an upstream's notification that a visit is over which no
	// client of this router waits for: the visit is over already, was not agreed to, or was
	// asked for on another connection.
	EventCompletionDropped AuditKind = "elicitation.completion_dropped"
)

// An AuditEvent reports what happened to a question, to an [AuditSink]: a record with one set of
// fields, as logs have it. It never holds answers or URLs. What a server does is reported by
// events of other packages.
type AuditEvent struct {
	Kind AuditKind
	Time time.Time
	// RequestID is the router's id of the question; empty in events that are about none. What
	// was refused gets one in EventRejected alone, which no client has seen.
	RequestID string
	// Upstream and Session are the two ends. Session is SessionInfo.LogName; it
	// is empty when no call was found.
	Upstream UpstreamKey
	Session  string
	// Principal, CallID and Request are those of the [Origin].
	Principal protocol.Principal
	CallID    string
	Request   protocol.ID
	// Candidates is how many calls in flight could have caused a question that was refused
	// because there are several; 0: the question is that of one call.
	Candidates int
	// Mode is the kind of question; empty in EventRejected, and in events that are about none.
	Mode protocol.InputKind
	// Message is the text of the question, redacted, escaped and cut.
	Message string
	// Action is what the client answered, in EventCompleted. With Unseen no person did:
	// it came sooner than Options.MinHumanTime.
	Action protocol.ElicitAction
	Unseen bool
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

	subject string // of an authenticated principal, for the log
}

// An AuditSink gets every event, for a record that must not depend on log levels,
// or for logs and traces of another kind than those built in.
type AuditSink interface {
	// Audit is called in the order of a question's events, while nothing else
	// happens to that question; it returns promptly and does not call the
	// router. Calls about different questions may overlap.
	Audit(e AuditEvent)
}

// recordsEvents reports whether the host wants events. Without it no text is redacted
// and no Event is made.
func (r *Router) recordsEvents() bool { return r.opts.Log != nil || r.opts.Audit != nil }

func (r *Router) emitEvent(ctx context.Context, e *AuditEvent) {
	if r.opts.Log != nil {
		r.callHost("logger", func() { r.writeLog(ctx, e) })
	}
	if r.opts.Audit != nil {
		r.callHost("audit sink", func() { r.opts.Audit.Audit(*e) })
	}
}

// callHost runs code of the host where a panic would leave a question locked or without
// its end, or would end the process from a timer. The panic is logged.
func (r *Router) callHost(what string, f func()) {
	defer func() {
		if p := recover(); p != nil && r.opts.Log != nil {
			r.logPanic(what, p)
		}
	}()
	f()
}

func (r *Router) logPanic(what string, p any) {
	defer func() { _ = recover() }() // it may be the logger that panics
	ctx := context.Background()
	if !r.opts.Log.Enabled(ctx, event.LevelError) {
		return
	}
	kind, stack := fmt.Sprintf("%T", p), string(debug.Stack()) // the text may hold an answer
	r.opts.Log.Write(ctx, event.LevelError, "elicitation: "+what+" panicked",
		event.EntryFunc(func(out event.Encoder) {
			out.AddString("error", kind)
			out.AddString("stack", stack)
		}))
}

// reportDroppedCompletion reports the completion of a visit that no client waits for.
func (r *Router) reportDroppedCompletion(upstream UpstreamKey) {
	if r.recordsEvents() {
		r.emitEvent(context.Background(),
			&AuditEvent{Kind: EventCompletionDropped, Time: time.Now(), Upstream: upstream})
	}
}

// describeIn fills in what an event has of its call.
func (c *Call) describeIn(e *AuditEvent) {
	e.Session, e.Principal = c.origin.Session.logName, c.origin.Principal
	e.CallID, e.Request, e.subject = c.origin.CallID, c.origin.Request, c.subject
}

// emitStateLocked emits the event of a change of state, with the outcome if the state is
// terminal.
func (p *pendingQuestion) emitStateLocked(kind AuditKind, out *outcome) {
	if !p.router.recordsEvents() {
		return
	}
	e := AuditEvent{
		Kind: kind, Time: time.Now(), RequestID: bareID(p.id), Upstream: p.call.upstream,
		Mode: p.kind, Message: p.message,
	}
	e.Duration = e.Time.Sub(p.created)
	p.call.describeIn(&e)
	if out != nil {
		p.call.describeOutcome(out, &e)
	}
	p.router.emitEvent(p.call.ctx, &e)
}

func (c *Call) describeOutcome(out *outcome, e *AuditEvent) {
	e.Violation = escapeForLog(out.detail)
	if out.result != nil {
		e.Action, e.Unseen = out.result.Action, out.unseen
	}
	if out.err == nil {
		return
	}
	e.By, e.Code = out.err.By, out.err.Wire.Code
	if out.state == stateFailed {
		e.Reason = out.err.Reason
	}
	e.Err = c.explainFailure(out.err)
}

// describeCandidates fills in what an event has of the calls one of which caused a question: all of
// the one call, or how many there are and what they have in common.
func describeCandidates(found []*Call, e *AuditEvent) {
	if len(found) == 0 {
		return
	}
	found[0].describeIn(e)
	for _, c := range found[1:] {
		e.CallID, e.Request, e.Candidates = "", protocol.ID{}, len(found)
		if c.origin.Session != found[0].origin.Session ||
			c.origin.Principal != found[0].origin.Principal {
			e.Session, e.Principal, e.subject = "", protocol.Principal{}, ""
		}
	}
}

// rejectQuestion records that a question was refused before it existed, and returns the
// refusal.
func (c *Call) rejectQuestion(params json.RawMessage, refused *Error) error {
	e := AuditEvent{Upstream: c.upstream}
	c.describeIn(&e)
	return c.router.recordRejection(c.ctx, refused, e, params)
}

// recordRejection counts and logs a refusal, and returns it. Every refusal passes here
// once. e says where it happened, as far as is known.
func (r *Router) recordRejection(ctx context.Context, refused *Error, e AuditEvent,
	params json.RawMessage) error {
	r.metrics.rejections(refused.Reason).Add(1)
	if !r.recordsEvents() {
		return refused
	}
	e.Kind, e.Time, e.Reason, e.RequestID = EventRejected, time.Now(), refused.Reason, newID()
	e.Code, e.Err = refused.Wire.Code, refused.logCause()
	e.Message = r.redactMessage(peekMessage(params))
	r.emitEvent(ctx, &e)
	return refused
}
