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

// offer takes a question from its parameters to an entry and the request for
// the client:
//
//	gate → read → gate the mode → policy → slot → bus → spell → Created
//
// Nothing has been sent, and nothing is left behind, when it is refused.
func (c *Call) offer(ctx context.Context, params json.RawMessage, opts *ElicitOptions, done func(Outcome)) (*entry, *protocol.Request, error) {
	if opts == nil {
		opts = &ElicitOptions{}
	}
	q, refused := c.admit(ctx, params)
	if refused != nil {
		return nil, nil, c.refuse(params, refused)
	}
	e := c.entry(q, opts, done)
	wire, refused := e.start(ctx, q)
	if refused != nil {
		return nil, nil, c.refuse(params, refused)
	}
	return e, wire, nil
}

// start takes a slot for a question and makes it exist. Nothing is left of one
// that is refused, nor where code of the host's panics.
func (e *entry) start(ctx context.Context, q *question) (wire *protocol.Request, refused *Error) {
	if refused = e.router.takeSlot(e.call); refused != nil {
		return nil, refused
	}
	exists := false
	defer func() {
		if !exists {
			e.discard()
		}
	}()
	if wire, refused = e.call.prepare(ctx, e, q); refused == nil {
		refused = e.create(ctx)
	}
	exists = refused == nil
	return wire, refused
}

// admit reads a question and decides whether this client may be asked it.
func (c *Call) admit(ctx context.Context, params json.RawMessage) (*question, *Error) {
	r := c.router
	r.mu.Lock()
	refused := c.usable()
	r.mu.Unlock()
	if refused == nil && ctx.Err() != nil {
		refused = noSession(ReasonNoSession, context.Cause(ctx))
	}
	if refused == nil {
		refused = c.gate("")
	}
	if refused != nil {
		return nil, refused
	}
	q, refused := r.parseQuestion(params)
	if refused == nil {
		refused = c.gate(q.kind)
	}
	if refused == nil && q.kind == protocol.KindElicitURL {
		refused = r.checkURL(ctx, c, q.url)
	}
	return q, refused
}

// entry makes the entry of a question, which has no slot yet.
func (c *Call) entry(q *question, opts *ElicitOptions, done func(Outcome)) *entry {
	r := c.router
	e := &entry{
		router: r, call: c, id: protocol.StringID(newID()), upstreamID: opts.UpstreamID, upToken: q.token,
		kind: q.kind, check: r.checkFor(q), progress: opts.Progress, done: done,
		timeout: opts.Timeout, byRouter: c.via.frames != nil,
	}
	if r.recording() {
		e.message = r.redacted(q.message)
	}
	if e.timeout <= 0 {
		e.timeout = r.opts.Timeout
	}
	e.timeout = min(e.timeout, r.opts.MaxTimeout)
	return e
}

// prepare spells the request for the client and tells the other replicas whose
// question it is.
func (c *Call) prepare(ctx context.Context, e *entry, q *question) (*protocol.Request, *Error) {
	r, s := c.router, c.origin.Session
	visitID := ""
	if q.id != "" {
		var refused *Error
		if e.visit, refused = r.visitFor(s, c, q.id); refused != nil {
			return nil, refused
		}
		visitID = e.visit.clientID
	} else if q.kind == protocol.KindElicitURL {
		visitID = newID() // the client's revision wants one
	}
	params, err := q.paramsFor(s.info.Version, e.id, visitID)
	if err != nil {
		return nil, invalidQuestion(ReasonInvalidQuestion, err)
	}
	if r.opts.Bus != nil {
		ctx, cancel := context.WithTimeout(ctx, busTimeout)
		defer cancel()
		err := r.opts.Bus.Claim(ctx, requestKey(e.id), r.opts.MaxTimeout+busTimeout)
		if e.claimed = err == nil; e.claimed {
			err = r.claimVisit(ctx, e.visit)
		}
		if err != nil {
			return nil, failure(ReasonBus, "The other replicas of the gateway cannot be reached", err)
		}
	}
	return &protocol.Request{ID: e.id, Method: protocol.MethodElicit, Params: params}, nil
}

// create makes the question exist: from here on it is counted, and ends once.
func (e *entry) create(ctx context.Context) *Error {
	r := e.router
	var resume func()
	if pause := e.call.origin.PauseClock; pause != nil {
		resume = pause()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r.sheltered("watcher", func() { e.wait.Begin(e.call.ctx, e) })
	e.created = time.Now()
	if refused := r.publish(e); refused != nil {
		e.state = stateFailed // nothing is left that the end of the wait could end
		r.sheltered("watcher", e.wait.End)
		if resume != nil {
			resume()
		}
		return refused
	}
	e.resume = resume
	e.expires = e.created.Add(e.timeout)
	if e.byRouter && r.opts.DeliveryTimeout < e.timeout {
		e.expires = e.created.Add(r.opts.DeliveryTimeout)
	}
	r.metrics.created()
	e.event(EventCreated, nil)
	e.timer = time.AfterFunc(time.Until(e.expires), e.expire)
	e.call.beginWaiting()
	if ctx.Done() != nil {
		e.release = context.AfterFunc(ctx, func() { e.finish(r.cancelled(ByUpstream, context.Cause(ctx))) })
	}
	return nil
}

// discard undoes what a refusal left: the slot and the claim.
func (e *entry) discard() {
	r := e.router
	r.mu.Lock()
	r.freeSlotLocked(e.call)
	if e.visit != nil {
		r.dropClaim(e.visit)
	}
	r.mu.Unlock()
	if e.claimed {
		r.opts.Bus.Release(requestKey(e.id))
	}
}
