package elicitation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
)

// A pendingQuestion is in the router's table and holds a slot, from openQuestion to finish.
type pendingQuestion struct {
	router   *Router
	call     *Call
	upstream context.Context // of the upstream's request
	id       protocol.ID
	kind     protocol.InputKind
	message  string // fit for logs
	check    answerCheck
	url      *urlElicitation // for a URL with an elicitationId
	outcomes chan outcome    // receives the only outcome
	created  time.Time
	timeout  time.Duration

	// mu is held during state changes and their events, to order events. Locked before Router.mu.
	mu sync.Mutex
	// state is the last event:
	//
	//	created → delivered → completed | timeout | cancelled | error
	//	created → timeout | cancelled | error
	//
	// A reply to a created question marks it delivered first.
	state           eventKind
	expires         time.Time
	delivered       time.Time // zero: not reported by the transport
	timer           *time.Timer
	unwatchUpstream func() bool        // stops watching the upstream's context
	wait            waiting.Wait       // tells middleware that the client's request waits
	cancelDelivery  context.CancelFunc // of a delivery in flight
	answered        bool               // the client has replied
	withdrawalSent  bool               // by the router
}

type outcome struct {
	state  eventKind
	result *protocol.ElicitResult // when completed
	err    *Error                 // otherwise
	detail string                 // how content violates the form, fit for logs
	// The field replied means that the client has answered, so the question is not withdrawn.
	replied bool
	unseen  bool // the client refused sooner than Options.MinHumanTime
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

// openQuestion creates a question and returns it with the request for the client:
//
//	admitQuestion: usable → capabilities → parameters → mode → secrets, URL policy
//	begin:         slot → URL elicitation → request → Created
//
// A refusal has sent nothing and leaves no state.
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

// begin takes a slot, publishes the question and returns the request. Errors free the slot.
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

// publish counts the question and adds it to the table. It holds mu throughout: from then on other
// goroutines may call finish, which must find every field set and eventCreated emitted.
func (p *pendingQuestion) publish(ctx context.Context) *Error {
	r := p.router
	p.mu.Lock()
	defer p.mu.Unlock()
	r.callHost("watcher", func() { p.wait.Begin(p.call.ctx, p) })
	p.created = time.Now()
	if refused := r.insertQuestionLocked(p); refused != nil {
		p.state = eventError // so that Cancel, which the wait may have called, does nothing
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

// finish ends the question; only the first call, which returns true, has effects. Hold no lock.
func (p *pendingQuestion) finish(out outcome) bool {
	p.mu.Lock()
	if p.state.endsQuestion() {
		p.mu.Unlock()
		return false
	}
	out.unseen = p.call.isUnseen(out.result, cmp.Or(p.delivered, p.created))
	p.endLocked(out)
	p.mu.Unlock()

	// These fields are final once the outcome is decided.
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

// isUnseen reports whether a refusal came too soon after shown for a person.
func (c *Call) isUnseen(result *protocol.ElicitResult, shown time.Time) bool {
	return result != nil && result.Action != protocol.ActionAccept &&
		waiting.IsTooSoon(c.ctx, c.router.opts.MinHumanTime, time.Since(shown))
}

// confirmDeliveryLocked records a delivery that the reply proves before the transport reports it.
func (p *pendingQuestion) confirmDeliveryLocked() {
	if p.state == eventCreated {
		p.state = eventDelivered
		p.emitStateLocked(nil)
	}
}

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

// finishCancelled ends the question because by withdrew it. If the client abandoned its call, the
// upstream's request ends too, but the recorded reason is the client.
func (p *pendingQuestion) finishCancelled(by string, cause error) bool {
	if (by == byUpstream || by == byCallEnd) && p.call.ctx.Err() != nil {
		by, cause = byClient, context.Cause(p.call.ctx)
	}
	if refused, ok := errors.AsType[*waiting.ClientError](cause); ok {
		return p.finish(p.readError(refused.Said)) // the transport is about to report this error
	}
	return p.finish(p.router.cancelledOutcome(by, cause))
}

// Cancel ends the question because the client's server closes. It implements [waiting.Canceler],
// whose callers may hold locks, so finish runs on its own goroutine.
func (p *pendingQuestion) Cancel(cause error) {
	go p.router.callHost("callback", func() { p.finishCancelled(byShutdown, cause) })
}

const textUndelivered = "Elicitation could not be delivered"

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

// handleTimer ends the question at its expiry. If the expiry was moved, so was the timer.
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

// extendTimeout restarts the timeout, within maxTimeout, or returns false after the end.
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
