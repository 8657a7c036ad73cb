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
	// Related is the id of the call upstream that the question belongs to,
	// where the transport tells: the stream that it came on. CallID is the same
	// in the host's terms. [Router.ElicitFrom] alone uses them. Zero: not known.
	Related protocol.ID
	CallID  string
	// Timeout is how long the client may take to answer, 0: Options.Timeout.
	// More than Options.MaxTimeout counts as that.
	Timeout time.Duration
	// Progress gets what the client reports about the question, with the
	// upstream's own progress token, if the upstream gave one. Nil: nobody
	// listens. It must return promptly.
	Progress func(p *protocol.Progress)
}

// Elicit puts a question of the upstream to the client of this call, and to no
// other, and waits for the answer. params are the parameters of
// elicitation/create as they came. The result is the client's, decoded; its
// content is unchanged but for [ValidateEnforce]. What the upstream is to get is [protocol.ElicitResult]
// as JSON, never the client's own bytes: a decoder that folds case could read a
// decline in them as an accept.
//
// ctx is the upstream's request: when it ends, the question is withdrawn. The
// error is an [*Error].
func (c *Call) Elicit(ctx context.Context, params json.RawMessage, opts *ElicitOptions) (*protocol.ElicitResult, error) {
	if c.via == (Via{}) {
		return nil, c.rejectQuestion(params, newFailure(ReasonDelivery, "The client cannot be reached", errNoVia))
	}
	answers := make(chan Outcome, 1)
	e, wire, err := c.openQuestion(ctx, params, opts, func(o Outcome) { answers <- o })
	if err != nil {
		return nil, err
	}
	if c.via.frames != nil {
		go e.deliverByFrames(wire)
	} else {
		go e.deliverByAsker(wire)
	}
	o := <-answers
	if o.Err != nil {
		return nil, o.Err
	}
	return o.Result, nil
}

// ElicitFrom is [Call.Elicit] for hosts that know the upstream connection on
// which a question came and not the call that caused it. It asks the client of
// the one call in flight on that connection. A related request id or a call id
// in opts must match that of a call; when more than one remains, the question is
// refused with [ErrAmbiguousOrigin]: it is never put to a client by guess.
func (r *Router) ElicitFrom(ctx context.Context, upstream UpstreamKey, params json.RawMessage, opts *ElicitOptions) (*protocol.ElicitResult, error) {
	c, err := r.findCall(upstream, params, opts)
	if err != nil {
		return nil, err
	}
	return c.Elicit(ctx, params, opts)
}
