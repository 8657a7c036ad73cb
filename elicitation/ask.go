package elicitation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// busTimeout bounds how long the other replicas may keep a question waiting
// before it is sent.
const busTimeout = 2 * time.Second

// openQuestion takes a question from its parameters to an entry and the request for
// the client:
//
//	gate → read → gate the mode → policy → slot → bus → spell → Created
//
// Nothing has been sent, and nothing is left behind, when it is refused.
func (c *Call) openQuestion(ctx context.Context, params json.RawMessage, opts *ElicitOptions, done func(Outcome)) (*pendingQuestion, *protocol.Request, error) {
	if opts == nil {
		opts = &ElicitOptions{}
	}
	q, refused := c.admitQuestion(ctx, params)
	if refused != nil {
		return nil, nil, c.rejectQuestion(params, refused)
	}
	e := c.newQuestion(q, opts, done)
	wire, refused := e.begin(ctx, q)
	if refused != nil {
		return nil, nil, c.rejectQuestion(params, refused)
	}
	return e, wire, nil
}

// begin takes a slot for a question and makes it exist. Nothing is left of one
// that is refused, nor where code of the host's panics.
func (e *pendingQuestion) begin(ctx context.Context, q *question) (wire *protocol.Request, refused *Error) {
	if refused = e.router.takeSlot(e.call); refused != nil {
		return nil, refused
	}
	exists := false
	defer func() {
		if !exists {
			e.undoBegin()
		}
	}()
	if wire, refused = e.call.prepare(ctx, e, q); refused == nil {
		refused = e.publish(ctx)
	}
	exists = refused == nil
	return wire, refused
}

// admitQuestion reads a question and decides whether this client may be asked it.
func (c *Call) admitQuestion(ctx context.Context, params json.RawMessage) (*question, *Error) {
	r := c.router
	r.mu.Lock()
	refused := c.checkUsableLocked()
	r.mu.Unlock()
	if refused == nil && ctx.Err() != nil {
		refused = noSessionError(ReasonNoSession, context.Cause(ctx))
	}
	if refused == nil {
		refused = c.checkCapabilities("")
	}
	if refused != nil {
		return nil, refused
	}
	q, refused := r.parseQuestion(params)
	if refused == nil {
		refused = c.checkCapabilities(q.kind)
	}
	if refused == nil && q.kind == protocol.KindElicitURL {
		refused = r.checkURL(ctx, c, q.url)
	}
	return q, refused
}

// newQuestion makes the entry of a question, which has no slot yet.
func (c *Call) newQuestion(q *question, opts *ElicitOptions, done func(Outcome)) *pendingQuestion {
	r := c.router
	e := &pendingQuestion{
		router: r, call: c, id: protocol.StringID(newID()), upstreamID: opts.UpstreamID, upstreamToken: q.token,
		kind: q.kind, check: r.answerCheckFor(q), onProgress: opts.Progress, done: done,
		timeout: opts.Timeout, routerDelivers: c.via.frames != nil,
	}
	if r.recordsEvents() {
		e.message = r.redactMessage(q.message)
	}
	if e.timeout <= 0 {
		e.timeout = r.opts.Timeout
	}
	e.timeout = min(e.timeout, r.opts.MaxTimeout)
	return e
}

// prepare spells the request for the client and tells the other replicas whose
// question it is.
func (c *Call) prepare(ctx context.Context, e *pendingQuestion, q *question) (*protocol.Request, *Error) {
	r, s := c.router, c.origin.Session
	visitID := ""
	if q.id != "" {
		var refused *Error
		if e.url, refused = r.urlElicitationFor(s, c, q.id); refused != nil {
			return nil, refused
		}
		visitID = e.url.clientID
	} else if q.kind == protocol.KindElicitURL {
		visitID = newID() // the client's revision wants one
	}
	params, err := q.encodeParams(s.info.Version, e.id, visitID)
	if err != nil {
		return nil, invalidQuestionError(ReasonInvalidQuestion, err)
	}
	if r.opts.Bus != nil {
		ctx, cancel := context.WithTimeout(ctx, busTimeout)
		defer cancel()
		err := r.opts.Bus.Claim(ctx, questionBusKey(e.id), r.opts.MaxTimeout+busTimeout)
		if e.claimed = err == nil; e.claimed {
			err = r.claimURL(ctx, e.url)
		}
		if err != nil {
			return nil, newFailure(ReasonBus, "The other replicas of the gateway cannot be reached", err)
		}
	}
	return &protocol.Request{ID: e.id, Method: protocol.MethodElicit, Params: params}, nil
}

// publish makes the question exist: from here on it is counted, and ends once.
func (e *pendingQuestion) publish(ctx context.Context) *Error {
	r := e.router
	var resume func()
	if pause := e.call.origin.PauseClock; pause != nil {
		resume = pause()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r.callHost("watcher", func() { e.wait.Begin(e.call.ctx, e) })
	e.created = time.Now()
	if refused := r.insertQuestion(e); refused != nil {
		e.state = stateFailed // nothing is left that the end of the wait could end
		r.callHost("watcher", e.wait.End)
		if resume != nil {
			resume()
		}
		return refused
	}
	e.resumeClock = resume
	e.expires = e.created.Add(e.timeout)
	if e.routerDelivers && r.opts.DeliveryTimeout < e.timeout {
		e.expires = e.created.Add(r.opts.DeliveryTimeout)
	}
	r.metrics.countCreated()
	e.emitStateLocked(EventCreated, nil)
	e.timer = time.AfterFunc(time.Until(e.expires), e.handleTimer)
	e.call.beginWaiting()
	if ctx.Done() != nil {
		e.unwatchUpstream = context.AfterFunc(ctx, func() { e.finish(r.cancelledOutcome(ByUpstream, context.Cause(ctx))) })
	}
	return nil
}

// undoBegin undoes what a refusal left: the slot and the claim.
func (e *pendingQuestion) undoBegin() {
	r := e.router
	r.mu.Lock()
	r.freeSlotLocked(e.call)
	if e.url != nil {
		r.releaseUnusedClaimLocked(e.url)
	}
	r.mu.Unlock()
	if e.claimed {
		r.opts.Bus.Release(questionBusKey(e.id))
	}
}
