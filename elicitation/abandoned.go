package elicitation

import (
	"errors"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
)

// maxAbandonedUpstreams is how many connections with abandoned calls are remembered.
// Connections that serve one call each come and go and need no memory: it is for
// the few that calls share.
const maxAbandonedUpstreams = 2048

// errAbandonedCall is why a question with one call on its connection is refused.
var errAbandonedCall = errors.New(
	"a call that was given up on this connection could have caused it")

// abandonedCalls counts, for each connection, the calls that ended because their context did, and
// on which their upstream may still work: what it asks until it notices is not for the client of
// the next call. A count lasts as long as a question may after the last call that was added. It is
// guarded by router.mu.
type abandonedCalls struct {
	counts *recent.Map[UpstreamKey, *abandonedCount]
}

// An abandonedCount is how many calls were abandoned on a connection.
type abandonedCount struct{ calls int }

func newAbandonedCalls(maxAge time.Duration) abandonedCalls {
	return abandonedCalls{
		recent.New[UpstreamKey, *abandonedCount](maxAbandonedUpstreams, maxAge)}
}

// add counts an abandoned call. The caller gives the count to remove.
func (a abandonedCalls) add(upstream UpstreamKey) *abandonedCount {
	count, known := a.counts.Get(upstream)
	if !known {
		count = &abandonedCount{}
	}
	count.calls++
	a.counts.Put(upstream, count) // starts its time anew
	return count
}

// remove undoes add. A count that has expired is not the one of calls that came later.
func (a abandonedCalls) remove(upstream UpstreamKey, count *abandonedCount) {
	count.calls--
	if now, _ := a.counts.Get(upstream); now == count && count.calls == 0 {
		a.counts.Delete(upstream)
	}
}

func (a abandonedCalls) has(upstream UpstreamKey) bool {
	_, found := a.counts.Get(upstream)
	return found
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
	if c.abandoned != nil {
		r.abandoned.remove(c.upstream, c.abandoned)
		c.abandoned = nil
	}
}
