package elicitation

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
)

// An Outcome is how a question ended. Exactly one of Result and Err is set.
type Outcome struct {
	// Result is the client's answer.
	Result *protocol.ElicitResult
	// Err says why there is none. It is an [*Error].
	Err error
	// Withdraw, if not nil, is to be sent to the client, on the stream of the
	// question: nobody waits for its answer any more.
	Withdraw *protocol.Notification
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
	return &protocol.Response{ID: id, Error: protocol.Errorf(protocol.CodeInternalError, "internal error")}
}

// An Offered is a question that the host delivers itself. All methods may be
// called concurrently.
type Offered struct {
	e    *pendingQuestion
	wire *protocol.Request
}

// Offer is [Call.Elicit] for hosts that shuffle frames: it returns at once with
// the request to be sent to the client, and no goroutine waits. done is called
// once, with the outcome, from whichever goroutine brings it about: [Router.Complete],
// a timer, the end of a context; it should return promptly. Nil: nobody is told.
//
// The host calls [Offered.Delivered] or [Offered.Failed] when the transport has
// taken the request or refused it. The error is an [*Error]; done is not called
// then.
func (c *Call) Offer(ctx context.Context, params json.RawMessage, opts *ElicitOptions, done func(Outcome)) (*Offered, error) {
	if done == nil {
		done = func(Outcome) {}
	}
	e, wire, err := c.openQuestion(ctx, params, opts, done)
	if err != nil {
		return nil, err
	}
	return &Offered{e: e, wire: wire}, nil
}

// OfferFrom is to [Call.Offer] what [Router.ElicitFrom] is to [Call.Elicit].
func (r *Router) OfferFrom(ctx context.Context, upstream UpstreamKey, params json.RawMessage, opts *ElicitOptions, done func(Outcome)) (*Offered, error) {
	c, err := r.findCall(upstream, params, opts)
	if err != nil {
		return nil, err
	}
	return c.Offer(ctx, params, opts, done)
}

// Request is the request for the client. Its id is the router's.
func (o *Offered) Request() *protocol.Request { return o.wire }

// Call is the call whose client is asked.
func (o *Offered) Call() *Call { return o.e.call }

// Delivered says that the transport has taken the request.
func (o *Offered) Delivered() {
	if o.e.markDelivered() && o.e.routerDelivers {
		go o.e.withdrawLate() // finish left it to whoever delivers
	}
}

// Failed says that the transport did not take the request. The question ends
// with err as its cause.
func (o *Offered) Failed(err error) { o.e.failDelivery(err) }

// Cancel withdraws the question on behalf of the upstream.
func (o *Offered) Cancel() { o.e.finish(o.e.router.cancelledOutcome(ByUpstream, nil)) }
