package elicitation

import "github.com/rondo-mcp/rondo/protocol"

// CancelUpstream withdraws the question that the upstream asked on a connection
// with the given id (ElicitOptions.UpstreamID), because the upstream cancelled
// it. It reports whether there was one. The upstream gets no response to a
// request that it has cancelled; the outcome is for the host alone.
func (r *Router) CancelUpstream(upstream UpstreamKey, id protocol.ID) bool {
	if id.IsZero() || upstream == "" {
		return false
	}
	var found *pendingQuestion
	r.mu.Lock()
	if u := r.upstreams[upstream]; u != nil {
		for _, c := range u.calls {
			for _, e := range c.questions {
				if e.upstreamID == id {
					found = e
				}
			}
		}
	}
	r.mu.Unlock()
	return found != nil && found.finish(r.cancelledOutcome(ByUpstream, nil))
}
