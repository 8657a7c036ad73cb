package elicitation

import "errors"

// maxAbandonedUpstreams is how many connections with abandoned calls are remembered.
// Connections that serve one call each come and go and need no memory: it is for
// the few that calls share.
const maxAbandonedUpstreams = 2048

// errAbandonedCall is why a question with one call on its connection is refused.
var errAbandonedCall = errors.New(
	"a call that was given up on this connection could have caused it")

// An abandonedCount is how many calls on a connection ended because their context did, while their
// upstream may still work on them: what it asks until it notices is not for the client of the next
// call. A count lasts as long as a question may after the last call that was added. Counts are
// guarded by router.mu.
type abandonedCount struct{ calls int }

// abandonLocked counts the call as abandoned.
func (c *Call) abandonLocked() {
	counts := c.router.abandoned
	count, known := counts.Get(c.upstream)
	if !known {
		count = &abandonedCount{}
	}
	count.calls++
	counts.Put(c.upstream, count) // starts its time anew
	c.abandoned = count
}

// ConfirmUpstreamEnd reports that the upstream is done with the call: it has answered the
// request, or acknowledged that it was cancelled, or its connection is closed. Questions
// that come later are not about this call, so that it makes none ambiguous any more.
// Hosts call it when they learn it, before or after [Call.End]; without it an abandoned
// call counts as long as a question may last, see [Options].Timeout. It may be called again.
func (c *Call) ConfirmUpstreamEnd() {
	r := c.router
	r.mu.Lock()
	defer r.mu.Unlock()
	c.upstreamDone = true
	if c.abandoned == nil {
		return
	}
	c.abandoned.calls--
	// A count that has expired is not the one of calls that came later.
	if now, _ := r.abandoned.Get(c.upstream); now == c.abandoned && now.calls == 0 {
		r.abandoned.Delete(c.upstream)
	}
	c.abandoned = nil
}
