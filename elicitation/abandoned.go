package elicitation

import "errors"

// maxAbandonedUpstreams is the number of connections with abandoned calls that are remembered. Only
// connections that calls share need it, and there are few.
const maxAbandonedUpstreams = 2048

// errAbandonedCall is why a question with one call on its connection is refused.
var errAbandonedCall = errors.New(
	"a call that was given up on this connection could have caused it")

// An abandonedCount counts the calls on a connection whose context ended while their upstream may
// still work on them: its questions are not for the client of the next call. A count lasts, after
// the last call that was added, as long as a question may. router.mu guards counts.
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

// ConfirmUpstreamEnd reports that the upstream is done with the call: it has answered the request,
// or acknowledged that it was cancelled, or its connection is closed. Later questions do not belong
// to this call. Hosts call it before or after [Call.End]; without it an abandoned call counts as
// long as a question may last, see [Options].Timeout. It may be called again.
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
