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

// An eventKind is the name of an event, as logs have it.
type eventKind string

// The events. A question has eventCreated, at most one eventDelivered, and one of the next four.
const (
	eventCreated   eventKind = "elicitation.created"
	eventDelivered eventKind = "elicitation.delivered"
	eventCompleted eventKind = "elicitation.completed"
	eventTimeout   eventKind = "elicitation.timeout"
	eventError     eventKind = "elicitation.error"
	eventCancelled eventKind = "elicitation.cancelled"
	// eventRejected reports a refused question, or a call that [Router.Begin] refused.
	eventRejected eventKind = "elicitation.rejected"
	// eventLeaked reports a call that the router has ended because its host has not.
	eventLeaked eventKind = "elicitation.leaked"
	// eventCompletionDropped reports a notification of an upstream that a visit is over which no
	// client of this router waits for: the visit is over already, was not agreed to, or was
	// asked for on another connection.
	eventCompletionDropped eventKind = "elicitation.completion_dropped"
)

// A questionEvent is a log entry about a question. It never holds answers or URLs.
type questionEvent struct {
	Kind eventKind
	// RequestID is the router's id of the question; empty in events about no question. A refused
	// question gets one for eventRejected, which no client has seen.
	RequestID string
	// Session is SessionInfo.LogName; empty if no call was found.
	Upstream UpstreamKey
	Session  string
	Subject  string // of an authenticated principal
	// CallID and Request are those of the [Origin].
	CallID  string
	Request protocol.ID
	// Candidates is the number of calls in flight that could have caused an ambiguous question.
	Candidates int
	// Mode is empty in eventRejected, and in events about no question.
	Mode    protocol.InputKind
	Message string // redacted, escaped and cut
	// Action is the client's answer, in eventCompleted. Unseen: sooner than Options.MinHumanTime.
	Action protocol.ElicitAction
	Unseen bool
	Reason Reason // in eventError and eventRejected
	By     string // in eventCancelled
	Code   int64  // of JSON-RPC, that the upstream gets; 0 for an answer
	// Violation says how accepted content violates the form, without its values.
	Violation string
	// Err is the cause of a refusal or failure. Of an [Asker]'s error, which may quote the answer,
	// it has only the kind.
	Err      string
	Duration time.Duration // since eventCreated; in eventLeaked, since Begin
}

// recordsEvents reports whether the host wants events.
func (r *Router) recordsEvents() bool { return r.opts.Log != nil }

func (r *Router) emitEvent(ctx context.Context, e *questionEvent) {
	r.callHost("logger", func() {
		if level := e.logLevel(); r.opts.Log.Enabled(ctx, level) {
			r.opts.Log.Write(ctx, level, string(e.Kind), e)
		}
	})
}

// callHost runs code of the host where a panic would leave a question locked or without its end, or
// would end the process. The panic is logged.
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

// describeIn sets the fields of an event that describe its call.
func (c *Call) describeIn(e *questionEvent) {
	e.Session = c.origin.Session.logName
	e.CallID, e.Request, e.Subject = c.origin.CallID, c.origin.Request, c.subject
}

// emit emits an event of the call.
func (c *Call) emit(e *questionEvent) {
	if c.router.recordsEvents() {
		e.Upstream = c.upstream
		c.describeIn(e)
		c.router.emitEvent(c.ctx, e)
	}
}

// endsQuestion reports whether an event of a question is its last one.
func (k eventKind) endsQuestion() bool { return k != eventCreated && k != eventDelivered }

// emitStateLocked emits the event of the state, with the outcome if that ends the question.
func (p *pendingQuestion) emitStateLocked(out *outcome) {
	if p.router.recordsEvents() {
		p.call.emitQuestion(&Relayed{ID: bareID(p.id), Mode: p.kind, Message: p.message,
			Created: p.created}, p.state, out)
	}
}

// emitQuestion emits an event of a question, with its outcome, nil: it has none yet.
func (c *Call) emitQuestion(q *Relayed, kind eventKind, out *outcome) {
	if !c.router.recordsEvents() {
		return
	}
	e := questionEvent{Kind: kind, RequestID: q.ID, Mode: q.Mode, Message: q.Message,
		Duration: time.Since(q.Created)}
	if out != nil {
		c.describeOutcome(out, &e)
	}
	c.emit(&e)
}

func (c *Call) describeOutcome(out *outcome, e *questionEvent) {
	e.Violation = escapeForLog(out.detail)
	if out.result != nil {
		e.Action, e.Unseen = out.result.Action, out.unseen
	}
	if out.err == nil {
		return
	}
	e.By, e.Code = out.err.By, out.err.Wire.Code
	if out.state == eventError {
		e.Reason = out.err.Reason
	}
	e.Err = c.explainFailure(out.err)
}

// describeCandidates describes the calls that could have caused a question: the only one, or the
// number of them and what they have in common.
func describeCandidates(found []*Call, e *questionEvent) {
	if len(found) == 0 {
		return
	}
	found[0].describeIn(e)
	for _, c := range found[1:] {
		e.CallID, e.Request, e.Candidates = "", protocol.ID{}, len(found)
		if c.origin.Session != found[0].origin.Session ||
			c.origin.Principal != found[0].origin.Principal {
			e.Session, e.Subject = "", ""
		}
	}
}

// rejectQuestion records and returns a refusal.
func (c *Call) rejectQuestion(params json.RawMessage, refused *Error) error {
	e := questionEvent{Upstream: c.upstream}
	c.describeIn(&e)
	return c.router.recordRejection(c.ctx, refused, e, params)
}

// recordRejection counts, logs and returns a refusal. e has its known origin.
func (r *Router) recordRejection(ctx context.Context, refused *Error, e questionEvent,
	params json.RawMessage) error {
	r.metrics.rejections(refused.Reason).Add(1)
	if !r.recordsEvents() {
		return refused
	}
	e.Kind, e.Reason, e.RequestID = eventRejected, refused.Reason, newID()
	e.Code, e.Err = refused.Wire.Code, refused.logCause()
	e.Message = r.redactMessage(peekMessage(params))
	r.emitEvent(ctx, &e)
	return refused
}
