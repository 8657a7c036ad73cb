package elicitation

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
)

// ElicitOptions say more about one question. The zero value works, and so does
// nil where a pointer is taken.
type ElicitOptions struct {
	// UpstreamID is the id of the upstream's request, by which
	// [Router.CancelUpstream] finds the question. Zero: it cannot be found.
	UpstreamID protocol.ID
	// RelatedID is the id of the call upstream that the question belongs to, where
	// the transport knows it from the stream. CallID is the same in the host's
	// terms. [Router.ElicitFrom] alone uses them. Zero: not known.
	RelatedID protocol.ID
	CallID    string
	// Timeout is how long the client may take to answer, 0 or less: Options.Timeout.
	// More than Options.MaxTimeout counts as that.
	Timeout time.Duration
	// Progress gets what the client reports about the question, with the
	// upstream's own progress token, if the upstream gave one; nil drops it. It must
	// return promptly.
	Progress func(p *protocol.Progress)
	// Receipt is how the host reports that the upstream got the answer, nil: an answer
	// counts as soon as it arrives.
	Receipt *Receipt
}

// Elicit puts a question of the upstream to the client of this call, and to no
// other, and waits for the answer. params are the parameters of
// elicitation/create as they came. The result is the client's, decoded; its
// content is unchanged but for [ValidateEnforce]. What the upstream is to get is
// [protocol.ElicitResult] as JSON, never the client's own bytes: a decoder that
// folds case could read a decline in them as an accept.
//
// ctx is the upstream's request: when it ends, the question is withdrawn. The
// error is an [*Error].
func (c *Call) Elicit(
	ctx context.Context, params json.RawMessage, opts *ElicitOptions,
) (*protocol.ElicitResult, error) {
	if c.via == (Via{}) {
		refused := newFailure(ReasonDelivery, "The client cannot be reached", errNoVia)
		return nil, c.rejectQuestion(params, refused)
	}
	outcomes := make(chan Outcome, 1)
	done := func(o Outcome) { outcomes <- o }
	p, request, err := c.openQuestion(ctx, params, opts, done, false)
	if err != nil {
		return nil, err
	}
	if c.via.frames != nil {
		go p.deliverByFrames(request)
	} else {
		go p.deliverByAsker(request)
	}
	o := <-outcomes
	if o.Err != nil {
		return nil, o.Err
	}
	return o.Result, nil
}

// ElicitFrom is [Call.Elicit] for hosts that know the upstream connection on
// which a question came and not the call that caused it. It asks the client of
// the one call in flight on that connection. A related request id or a call id
// in opts must match that of a call. When more than one remains, all of one session,
// one principal and the same capabilities, the question is asked on the session's own
// stream ([SessionInfo].Via), as one of no call: it is withdrawn when the last of them
// ends, and [AuditEvent].Candidates says how many there were. Else it is refused with
// [ReasonAmbiguous]: it is never put to a client by guess.
func (r *Router) ElicitFrom(
	ctx context.Context, upstream UpstreamKey, params json.RawMessage, opts *ElicitOptions,
) (*protocol.ElicitResult, error) {
	c, err := r.findCall(ctx, upstream, params, opts)
	if err != nil {
		return nil, err
	}
	return c.Elicit(ctx, params, opts)
}

// An Outcome is how a question ended. Exactly one of Result and Err is set; the [Reason] of
// Err says why there is no answer, and its [CancelledBy] who withdrew the question. An
// outcome is not the only thing that happens to a question: an [AuditKind] names each step
// of its life, its end among them, and a [Disposition] is about one reply of a client, of
// which a question may get several and only one can be the outcome.
type Outcome struct {
	// Result is the client's answer.
	Result *protocol.ElicitResult
	// Unseen means that Result is a decline or cancel that came sooner than
	// Options.MinHumanTime: the client refused without showing the question. The upstream
	// gets the action as the client sent it, since the protocol has no other word.
	Unseen bool
	// Err says why there is none. It is an [*Error].
	Err error
	// Withdraw, if not nil, is a notification that the host sends to the client, on
	// the stream of the question: its answer is no longer needed.
	Withdraw *protocol.Notification
	// Resolved means that the answer was claimed with [Router.Resolve], whose caller brings
	// it to the upstream: nothing is to be sent here. Of an answer that was claimed at
	// another replica Result has the action alone.
	Resolved bool
}

// Response returns the response to the upstream's request with the given id.
func (o Outcome) Response(id protocol.ID) *protocol.Response {
	if wire, ok := protocol.AsError(o.Err); ok {
		return &protocol.Response{ID: id, Error: wire}
	}
	if o.Result != nil {
		if result, err := o.Result.MarshalJSON(); err == nil {
			return &protocol.Response{ID: id, Result: result}
		}
	}
	// Not an outcome of a router's.
	wire := protocol.Errorf(protocol.CodeInternalError, "internal error")
	return &protocol.Response{ID: id, Error: wire}
}

// An Offered is a question that the host delivers itself. All methods may be
// called concurrently.
type Offered struct {
	question *pendingQuestion
	request  *protocol.Request
}

// Offer is [Call.Elicit] for hosts that shuffle frames: it returns at once with
// the request to be sent to the client, and no goroutine waits. done is called
// once, with the outcome, from whichever goroutine brings it about: [Router.HandleReply],
// a timer, the end of a context; it should return promptly. It may be nil.
//
// The host calls [Offered.ConfirmDelivery] or [Offered.FailDelivery] when the transport has
// taken the request or refused it. The error is an [*Error]; done is not called
// then.
func (c *Call) Offer(
	ctx context.Context, params json.RawMessage, opts *ElicitOptions, done func(Outcome),
) (*Offered, error) {
	if done == nil {
		done = func(Outcome) {}
	}
	p, request, err := c.openQuestion(ctx, params, opts, done, true)
	if err != nil {
		return nil, err
	}
	return &Offered{question: p, request: request}, nil
}

// Request is the request for the client. Its id is the router's.
func (o *Offered) Request() *protocol.Request { return o.request }

// Call is the call whose client is asked. For a question that several calls could have
// caused it is one that stands for them, which the host does not end.
func (o *Offered) Call() *Call { return o.question.call }

// ConfirmDelivery reports that the transport has taken the request.
func (o *Offered) ConfirmDelivery() {
	if p := o.question; p.markDelivered() && p.routerDelivers {
		go p.withdrawLate() // finish leaves it to whoever delivers
	}
}

// FailDelivery reports that the transport did not take the request. The question ends
// with err as its cause.
func (o *Offered) FailDelivery(err error) { o.question.failDelivery(err) }

// Cancel withdraws the question on behalf of the upstream.
func (o *Offered) Cancel() { o.question.finishCancelled(ByUpstream, nil) }

// CancelUpstream withdraws the question that the upstream asked on a connection
// with the given id (ElicitOptions.UpstreamID), because the upstream cancelled
// it. It reports whether there was one. The upstream gets no response to a
// request that it has cancelled; the outcome is for the host alone.
func (r *Router) CancelUpstream(upstream UpstreamKey, id protocol.ID) bool {
	if id.IsZero() || upstream == "" {
		return false
	}
	p := r.findQuestion(upstream, id)
	return p != nil && p.finishCancelled(ByUpstream, nil)
}
