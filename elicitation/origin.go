package elicitation

import (
	"encoding/json"
	"errors"
	"fmt"
)

// findCall finds the call in flight on a connection that a question belongs to. A
// call that is over counts until its host has ended it: the upstream may still be
// at it, and what it asks is not for whoever else is on the connection.
func (r *Router) findCall(upstream UpstreamKey, params json.RawMessage, opts *ElicitOptions) (*Call, error) {
	if opts == nil {
		opts = &ElicitOptions{}
	}
	var found []*Call
	r.mu.Lock()
	if u := r.upstreams[upstream]; u != nil { // no call is at ""
		for _, c := range u.calls {
			if c.matchesLocked(opts) {
				found = append(found, c)
			}
		}
	}
	draining := r.draining
	usable := len(found) == 1 && found[0].checkUsableLocked() == nil
	stray := len(found) > 0 && opts.CallID == "" && opts.Related.IsZero() && r.abandoned.has(upstream)
	r.mu.Unlock()
	var refused *Error
	switch {
	case usable && !stray:
		return found[0], nil
	case draining:
		refused = r.shutdownError()
	case usable:
		refused = noSessionError(ReasonAmbiguous, errAbortedCall)
	case len(found) < 2:
		refused = noSessionError(ReasonNoSession, nil)
	default:
		refused = noSessionError(ReasonAmbiguous, fmt.Errorf("%d calls could have caused it", len(found)))
	}
	return nil, r.recordRejection(refused, Event{Upstream: upstream, CallID: opts.CallID}, params)
}

// errAbandoned is why a question with one call on its connection is refused.
var errAbortedCall = errors.New("a call that was given up on this connection could have caused it")

// matchesLocked tells whether what is known of a question's origin fits the call.
// r.mu is held.
func (c *Call) matchesLocked(opts *ElicitOptions) bool {
	return (opts.CallID == "" || opts.CallID == c.origin.CallID) &&
		(opts.Related.IsZero() || opts.Related == c.related)
}
