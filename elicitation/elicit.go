package elicitation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

// Elicit puts a question of the upstream to the client of this call and waits for the answer.
// params are the parameters of elicitation/create, unchanged. The result is the client's; its
// content is unchanged except with [ValidateEnforce]. Send the upstream the result as JSON, not the
// client's own bytes: in those, a case-folding decoder could read a decline as an accept.
//
// ctx is the upstream request's context: its end withdraws the question. The error is an [*Error].
func (c *Call) Elicit(
	ctx context.Context, params json.RawMessage,
) (*protocol.ElicitResult, error) {
	if c.via == (Via{}) {
		refused := newFailure(ReasonDelivery, "The client cannot be reached", errNoVia)
		return nil, c.rejectQuestion(params, refused)
	}
	p, request, err := c.openQuestion(ctx, params)
	if err != nil {
		return nil, err
	}
	if c.via.frames != nil {
		go p.deliverByFrames(request)
	} else {
		go p.deliverByAsker(request)
	}
	out := <-p.outcomes
	if out.err != nil {
		return nil, out.err
	}
	return out.result, nil
}

// ElicitFrom is [Call.Elicit] for hosts that know a question's upstream connection but not its
// call. It asks the client of the call named by [MetaCall], or else of the only call in flight on
// that connection. If several calls, or an abandoned one, could have caused the question, it is
// refused with [ReasonAmbiguous]: the router never guesses.
func (r *Router) ElicitFrom(
	ctx context.Context, upstream UpstreamKey, params json.RawMessage,
) (*protocol.ElicitResult, error) {
	event := questionEvent{Upstream: upstream, CallID: readCallID(params)}
	r.mu.Lock()
	c, refused := r.findCallLocked(upstream, &event)
	r.mu.Unlock()
	if refused != nil {
		return nil, r.recordRejection(ctx, refused, event, params)
	}
	return c.Elicit(ctx, params)
}

// findCallLocked returns the call that may have caused a question with the CallID in event, to
// which it adds the candidate calls. A call counts until its host ends it.
func (r *Router) findCallLocked(upstream UpstreamKey, event *questionEvent) (*Call, *Error) {
	var found []*Call
	_, abandoned := r.abandoned.Get(upstream)
	abandoned = abandoned && event.CallID == "" // describeCandidates sets CallID
	usable := false
	for _, c := range r.upstreams[upstream] { // no call has the key ""
		if !c.upstreamDone && (event.CallID == "" || event.CallID == c.origin.CallID) {
			found = append(found, c)
			usable = usable || c.checkUsableLocked() == nil
		}
	}
	describeCandidates(found, event)
	switch {
	case r.draining:
		return nil, shutdownError()
	case !usable:
		return nil, noSessionError(ReasonNoSession, nil)
	case len(found) > 1:
		return nil, noSessionError(ReasonAmbiguous,
			fmt.Errorf("%d calls could have caused it", len(found)))
	case abandoned:
		return nil, noSessionError(ReasonAmbiguous, errAbandonedCall)
	}
	return found[0], nil
}
