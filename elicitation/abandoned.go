package elicitation

import "errors"

const maxAbandonedUpstreams = 2048

var errAbandonedCall = errors.New(
	"an abandoned call on this connection could have caused it")

// An abandonedCount counts calls on a connection whose contexts ended but which the upstream may
// still serve: its questions may belong to these rather than to the next call. A count expires a
// question's longest life after the last call was added. Guarded by router.mu.
type abandonedCount struct{ calls int }

// ConfirmUpstreamEnd reports that the upstream is done with the call: it answered, acknowledged the
// cancellation, or its connection closed. Later questions do not belong to this call. Hosts call it
// before or after [Call.End]; without it an abandoned call counts as long as a question may last,
// see [Options].Timeout. It may be called again.
func (c *Call) ConfirmUpstreamEnd() {
	r := c.router
	r.mu.Lock()
	defer r.mu.Unlock()
	c.upstreamDone = true
	if c.abandoned == nil {
		return
	}
	c.abandoned.calls--
	// A newer count belongs to later calls, not to this one.
	if now, _ := r.abandoned.Get(c.upstream); now == c.abandoned && now.calls == 0 {
		r.abandoned.Delete(c.upstream)
	}
	c.abandoned = nil
}
