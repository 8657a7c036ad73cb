package elicitation

import (
	"encoding/json"
)

// origin finds the call in flight on a connection that a question belongs to.
func (r *Router) origin(upstream UpstreamKey, params json.RawMessage, opts *ElicitOptions) (*Call, error) {
	if opts == nil {
		opts = &ElicitOptions{}
	}
	var found []*Call
	r.mu.Lock()
	if u := r.upstreams[upstream]; u != nil { // no call is at ""
		for _, c := range u.calls {
			if c.usable() == nil && c.matches(opts) {
				found = append(found, c)
			}
		}
	}
	draining := r.draining
	r.mu.Unlock()
	switch {
	case len(found) == 1:
		return found[0], nil
	case draining:
		return nil, r.rejected(r.shuttingDown(), params, upstream, nil)
	case len(found) == 0:
		return nil, r.rejected(noSession(ReasonNoSession, nil), params, upstream, nil)
	}
	return nil, r.rejected(noSession(ReasonAmbiguous, nil), params, upstream, nil)
}

// matches tells whether what is known of a question's origin fits the call.
// r.mu is held.
func (c *Call) matches(opts *ElicitOptions) bool {
	return (opts.CallID == "" || opts.CallID == c.origin.CallID) &&
		(opts.Related.IsZero() || opts.Related == c.related)
}
