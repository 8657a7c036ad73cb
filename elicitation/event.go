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

type eventKind string

// A question has eventCreated, at most one eventDelivered, and one of the next four.
const (
	eventCreated   eventKind = "elicitation.created"
	eventDelivered eventKind = "elicitation.delivered"
	eventCompleted eventKind = "elicitation.completed"
	eventTimeout   eventKind = "elicitation.timeout"
	eventError     eventKind = "elicitation.error"
	eventCancelled eventKind = "elicitation.cancelled"
	eventRejected  eventKind = "elicitation.rejected" // a question, or a call at [Router.Begin]
	eventLeaked    eventKind = "elicitation.leaked"   // the router ended a forgotten call
	// eventCompletionDropped reports an upstream's completion of a visit that no client of this
	// router waits for: it is already over, was declined, or belongs to another connection.
	eventCompletionDropped eventKind = "elicitation.completion_dropped"
)

// A questionEvent is a log entry about a question. It never holds answers or URLs.
type questionEvent struct {
	Kind eventKind
	// RequestID is the router's id of the question; new if rejected, empty without a question.
	RequestID string
	// Session is SessionInfo.LogName; empty if no call was found.
	Upstream   UpstreamKey
	Session    string
	Subject    string // of an authenticated principal
	CallID     string // CallID and Request are from the [Origin].
	Request    protocol.ID
	Candidates int // calls that could have caused an ambiguous question
	Mode       protocol.InputKind
	Message    string // redacted, escaped and cut
	// Action is the answer, in eventCompleted. Unseen: it came sooner than Options.MinHumanTime.
	Action    protocol.ElicitAction
	Unseen    bool
	Reason    Reason // in eventError and eventRejected
	By        string // in eventCancelled
	Code      int64  // JSON-RPC code for the upstream; 0 for an answer
	Violation string // how accepted content violates the form, without its values
	// Err is the cause. An [Asker]'s error may quote the answer, so only its kind is logged.
	Err      string
	Duration time.Duration // since eventCreated; in eventLeaked, since Begin
}

func (r *Router) recordsEvents() bool { return r.opts.Log != nil }

func (r *Router) emitEvent(ctx context.Context, e *questionEvent) {
	r.callHost("logger", func() {
		if level := e.logLevel(); r.opts.Log.Enabled(ctx, level) {
			r.opts.Log.Write(ctx, level, string(e.Kind), e)
		}
	})
}

// callHost runs host code, logging panics, which must not leave a question locked or unended.
func (r *Router) callHost(what string, f func()) {
	defer func() {
		if p := recover(); p != nil && r.opts.Log != nil {
			r.logPanic(what, p)
		}
	}()
	f()
}

func (r *Router) logPanic(what string, p any) {
	defer func() { _ = recover() }() // the logger itself may panic
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

func (c *Call) describeIn(e *questionEvent) {
	e.Session = c.origin.Session.logName
	e.CallID, e.Request, e.Subject = c.origin.CallID, c.origin.Request, c.subject
}

func (c *Call) emit(e *questionEvent) {
	if c.router.recordsEvents() {
		e.Upstream = c.upstream
		c.describeIn(e)
		c.router.emitEvent(c.ctx, e)
	}
}

func (k eventKind) endsQuestion() bool { return k != eventCreated && k != eventDelivered }

func (p *pendingQuestion) emitStateLocked(out *outcome) {
	p.call.emitQuestion(&Relayed{ID: bareID(p.id), Mode: p.kind, Message: p.message,
		Created: p.created}, p.state, out)
}

// emitQuestion emits an event of a question; out is nil while the question is pending.
func (c *Call) emitQuestion(q *Relayed, kind eventKind, out *outcome) {
	if !c.router.recordsEvents() {
		return
	}
	e := questionEvent{Kind: kind, RequestID: q.ID, Mode: q.Mode, Message: q.Message,
		Duration: time.Since(q.Created)}
	if out != nil {
		e.Violation = escapeForLog(out.detail)
	}
	if out != nil && out.result != nil {
		e.Action, e.Unseen = out.result.Action, out.unseen
	}
	if out != nil && out.err != nil {
		e.By, e.Code, e.Err = out.err.By, out.err.Wire.Code, c.explainFailure(out.err)
		if out.state == eventError {
			e.Reason = out.err.Reason
		}
	}
	c.emit(&e)
}

// describeCandidates describes the only possible call, or the calls' number and common fields.
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

func (c *Call) rejectQuestion(params json.RawMessage, refused *Error) error {
	e := questionEvent{Upstream: c.upstream}
	c.describeIn(&e)
	return c.router.recordRejection(c.ctx, refused, e, params)
}

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
