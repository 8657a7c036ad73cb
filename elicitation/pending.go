package elicitation

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// A pendingQuestion is one question from [Call.openQuestion] to finish. In between it is in the
// table of the router and holds a slot.
type pendingQuestion struct {
	router   *Router
	call     *Call
	upstream context.Context // of the upstream's request
	id       protocol.ID
	kind     protocol.InputKind
	message  string // fit for logs
	check    answerCheck
	url      *urlElicitation // of a URL with an elicitationId
	outcomes chan outcome    // gets the one that it has
	created  time.Time
	timeout  time.Duration

	// mu is held while the state changes and the events about it are emitted, so
	// that the events of a question come in the order of its states. Router.mu may
	// be locked while mu is held, never the other way round.
	mu sync.Mutex
	// state is the last event:
	//
	//	created → delivered → completed | timeout | cancelled | error
	//	created → timeout | cancelled | error
	//
	// A reply to a question that is only created makes it delivered first.
	state           eventKind
	expires         time.Time
	delivered       time.Time // zero: the transport has not said so
	timer           *time.Timer
	unwatchUpstream func() bool        // stops watching the upstream's context
	wait            waiting.Wait       // tells middleware that the client's request waits
	cancelDelivery  context.CancelFunc // of a delivery that is in flight
	answered        bool               // the client has replied
	withdrawalSent  bool               // by the router
}

// An outcome is the terminal state of a question and why.
type outcome struct {
	state  eventKind
	result *protocol.ElicitResult // when completed
	err    *Error                 // otherwise
	detail string                 // what content does not fit the form, fit for logs
	// replied means that the client has answered: the question was delivered, whatever the
	// transport reports, and is not withdrawn.
	replied bool
	// unseen means that the client refused sooner than Options.MinHumanTime.
	unseen bool
}

func failed(err *Error) outcome { return outcome{state: eventError, err: err} }

func timeoutOutcome() outcome {
	wire := protocol.Errorf(protocol.CodeTimeout, "Elicitation timed out")
	return outcome{state: eventTimeout, err: &Error{Reason: ReasonTimeout, Wire: wire}}
}

func (r *Router) cancelledOutcome(by string, cause error) outcome {
	e := &Error{Reason: ReasonCancelled, By: by, Err: cause}
	switch by {
	case bySession:
		e.Wire = protocol.Errorf(protocol.CodeMethodNotFound, textNoSession)
	case byClient, byCallEnd:
		e.Wire = protocol.Errorf(protocol.CodeFlowEnded,
			"Elicitation cancelled: the request that caused it has ended")
	case byShutdown:
		refused := shutdownError()
		e.Wire, e.RetryAfter = refused.Wire, refused.RetryAfter
	default:
		e.Wire = protocol.Errorf(protocol.CodeFlowEnded, "Elicitation cancelled")
	}
	return outcome{state: eventCancelled, err: e}
}

// openQuestion makes a question of the upstream's parameters and returns it with
// the request for the client:
//
//	admitQuestion: usable → capabilities → parameters → mode → secrets, URL policy
//	begin:         slot → URL elicitation → request → Created
//
// If the question is refused, nothing has been sent and no state is left.
func (c *Call) openQuestion(
	ctx context.Context, params json.RawMessage,
) (*pendingQuestion, *protocol.Request, error) {
	q, refused := c.admitQuestion(ctx, params)
	if refused != nil {
		return nil, nil, c.rejectQuestion(params, refused)
	}
	r := c.router
	p := &pendingQuestion{
		router: r, call: c, upstream: ctx, id: protocol.StringID(newID()), kind: q.kind,
		check: r.answerCheckFor(q), outcomes: make(chan outcome, 1), state: eventCreated,
		timeout: r.opts.Timeout,
	}
	if r.recordsEvents() {
		p.message = r.redactMessage(q.message)
	}
	request, refused := p.begin(ctx, q)
	if refused != nil {
		return nil, nil, c.rejectQuestion(params, refused)
	}
	return p, request, nil
}

// begin takes a slot for the question, publishes it and returns the request for the client. If the
// question is refused, or code of the host panics, it frees the slot.
func (p *pendingQuestion) begin(
	ctx context.Context, q *parsedQuestion,
) (request *protocol.Request, refused *Error) {
	if refused = p.router.takeSlot(p.call); refused != nil {
		return nil, refused
	}
	begun := false
	defer func() {
		if !begun {
			p.router.mu.Lock()
			p.router.freeSlotLocked(p.call)
			p.router.mu.Unlock()
		}
	}()
	if request, refused = p.encodeRequest(q); refused != nil {
		return nil, refused
	}
	if refused = p.publish(ctx); refused != nil {
		return nil, refused
	}
	begun = true
	return request, nil
}

// encodeRequest returns the request for the client, with ids of the router.
func (p *pendingQuestion) encodeRequest(q *parsedQuestion) (*protocol.Request, *Error) {
	session, elicitationID := p.call.origin.Session, ""
	if q.id != "" {
		p.url = p.router.urlElicitationFor(p.call, q.id)
		elicitationID = p.url.clientID
	} else if q.kind == protocol.KindElicitURL {
		elicitationID = newID() // the client's revision requires one
	}
	params, err := q.encodeParams(session.info.Version, p.id, elicitationID)
	if err != nil {
		return nil, invalidQuestionError(ReasonInvalidQuestion, err)
	}
	return &protocol.Request{ID: p.id, Method: protocol.MethodElicit, Params: params}, nil
}

// publish counts the question and adds it to the table. It holds mu throughout: replies,
// cancellations and the timer may then call finish from other goroutines, and finish must find
// every field set and eventCreated emitted.
func (p *pendingQuestion) publish(ctx context.Context) *Error {
	r := p.router
	p.mu.Lock()
	defer p.mu.Unlock()
	r.callHost("watcher", func() { p.wait.Begin(p.call.ctx, p) })
	p.created = time.Now()
	if refused := r.insertQuestionLocked(p); refused != nil {
		p.state = eventError // so that Cancel, which the wait may have called, ends nothing
		r.callHost("watcher", p.wait.End)
		return refused
	}
	p.expires = p.created.Add(p.timeout)
	if p.call.via.frames != nil && deliveryTimeout < p.timeout {
		p.expires = p.created.Add(deliveryTimeout) // until it is delivered
	}
	r.metrics.requests.Add(1)
	r.metrics.pending.Add(1)
	p.emitStateLocked(nil)
	p.timer = time.AfterFunc(time.Until(p.expires), p.handleTimer)
	if ctx.Done() != nil {
		p.unwatchUpstream = context.AfterFunc(ctx, func() {
			p.finishCancelled(byUpstream, context.Cause(ctx))
		})
	}
	return nil
}

// finish ends the question and reports whether it was the first call: only that counts, reports and
// frees the slot. It may be called from any goroutine, with no lock held.
func (p *pendingQuestion) finish(out outcome) bool {
	p.mu.Lock()
	if p.state.endsQuestion() {
		p.mu.Unlock()
		return false
	}
	out.unseen = p.isUnseenLocked(out)
	p.endLocked(out)
	p.mu.Unlock()

	// Nothing writes these fields once the outcome is decided.
	r := p.router
	if p.unwatchUpstream != nil {
		p.unwatchUpstream()
	}
	r.callHost("watcher", p.wait.End)
	if p.cancelDelivery != nil {
		p.cancelDelivery()
	}
	p.outcomes <- out
	return true
}

// isUnseenLocked reports whether the answer is a refusal that came too soon for a person. The time
// counts from the delivery, or from the creation if the transport has not reported one.
func (p *pendingQuestion) isUnseenLocked(out outcome) bool {
	if out.result == nil || out.result.Action == protocol.ActionAccept {
		return false
	}
	shown := p.created
	if !p.delivered.IsZero() {
		shown = p.delivered
	}
	return waiting.IsTooSoon(p.call.ctx, p.router.opts.MinHumanTime, time.Since(shown))
}

// confirmDeliveryLocked records a delivery that the reply proves before the transport reports it.
func (p *pendingQuestion) confirmDeliveryLocked() {
	if p.state == eventCreated {
		p.state = eventDelivered
		p.emitStateLocked(nil)
	}
}

// endLocked counts the outcome, emits its event and removes the question from the table.
func (p *pendingQuestion) endLocked(out outcome) {
	if out.replied {
		p.confirmDeliveryLocked()
	}
	before := p.state
	p.state, p.answered = out.state, out.replied
	if out.err != nil {
		out.err.RequestID = bareID(p.id)
	}
	p.withdrawLocked(before, out)
	p.removeLocked(out)
	p.router.metrics.pending.Add(-1)
	p.router.metrics.countOutcome(out, time.Since(p.created))
	p.emitStateLocked(&out)
	p.timer.Stop()
}

// finishCancelled ends the question because by withdrew it. If the client has abandoned its call,
// the upstream's request ends, too: whichever is seen first, the reason is the client.
func (p *pendingQuestion) finishCancelled(by string, cause error) bool {
	if (by == byUpstream || by == byCallEnd) && p.call.ctx.Err() != nil {
		by, cause = byClient, context.Cause(p.call.ctx)
	}
	if refused, ok := errors.AsType[*waiting.ClientError](cause); ok {
		return p.finish(p.readError(refused.Said)) // which the transport is about to report
	}
	return p.finish(p.router.cancelledOutcome(by, cause))
}

// Cancel ends the question because the server that runs the client's request closes. It implements
// [waiting.Canceler], whose callers may hold locks, so finish runs on its own goroutine.
func (p *pendingQuestion) Cancel(cause error) {
	go p.router.callHost("callback", func() { p.finishCancelled(byShutdown, cause) })
}

const textUndelivered = "Elicitation could not be delivered"

// failDelivery ends the question because the transport failed.
func (p *pendingQuestion) failDelivery(err error) {
	p.finish(failed(newFailure(ReasonDelivery, textUndelivered, err)))
}

func (p *pendingQuestion) setExpiryLocked(t time.Time) {
	if p.expires.Equal(t) {
		return
	}
	p.expires = t
	p.timer.Reset(time.Until(t))
}

// handleTimer ends the question at its expiry. If the expiry has been moved meanwhile it does
// nothing, because the timer was reset.
func (p *pendingQuestion) handleTimer() {
	p.mu.Lock()
	early := time.Now().Before(p.expires)
	stuck := p.state == eventCreated && p.expires.Before(p.created.Add(p.timeout))
	p.mu.Unlock()
	switch {
	case early:
	case stuck:
		p.failDelivery(errStuck)
	default:
		p.finish(timeoutOutcome())
	}
}

// extendTimeout restarts the timeout, within maxTimeout. It returns false after the end.
func (p *pendingQuestion) extendTimeout() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.endsQuestion() {
		return false
	}
	p.confirmDeliveryLocked()
	next := time.Now().Add(p.timeout)
	if last := p.created.Add(p.router.opts.maxTimeout()); next.After(last) {
		next = last
	}
	if next.After(p.expires) {
		p.setExpiryLocked(next)
	}
	return true
}
