package elicitation

import (
	"time"

	"github.com/rondo-mcp/rondo/internal/recent"
	"github.com/rondo-mcp/rondo/protocol"
)

const (
	// maxAbandonedUpstreams is how many connections with abandoned calls are remembered.
	// Connections that serve one call each come and go and need no memory: it is for
	// the few that calls share.
	maxAbandonedUpstreams = 2048
	// maxAbandoningClients is how many clients of one connection are told apart. Those
	// beyond it count as one that nobody is.
	maxAbandoningClients = 32
)

// A callClient is whom a question of a call is put to: two calls with the same one are
// of the same person, who can be asked the same.
type callClient struct {
	session   string
	principal protocol.Principal
	form, url bool
}

func (c *Call) client() callClient {
	form, url := supportedModes(c.capabilities(), c.origin.Session.info.Version)
	return callClient{c.origin.Session.info.ID, c.origin.Principal, form, url}
}

// An abandonedTable has the calls that ended because their context did, and on which their
// upstream may still work: what it asks until it notices is not for the client of the next
// call on the connection. It is guarded by router.mu.
type abandonedTable struct {
	maxAge    time.Duration
	upstreams *recent.Map[UpstreamKey, *abandonedCalls]
}

func newAbandonedTable(maxAge time.Duration) abandonedTable {
	return abandonedTable{
		maxAge:    maxAge,
		upstreams: recent.New[UpstreamKey, *abandonedCalls](maxAbandonedUpstreams, maxAge),
	}
}

// abandonedCalls are the abandoned calls of one connection, by their client.
type abandonedCalls map[callClient]*abandonedCount

// An abandonedCount is how many calls of one client on one connection are abandoned.
type abandonedCount struct {
	calls int
	last  time.Time
}

// add counts an abandoned call. The caller gives the count to remove when the upstream
// has noticed.
func (t *abandonedTable) add(upstream UpstreamKey, client callClient) *abandonedCount {
	on, known := t.upstreams.Get(upstream)
	if !known {
		on = &abandonedCalls{}
	}
	t.dropExpired(*on)
	if (*on)[client] == nil && len(*on) >= maxAbandoningClients {
		client = callClient{} // sessions have ids, so that it is the client of no call
	}
	count := (*on)[client]
	if count == nil {
		count = &abandonedCount{}
		(*on)[client] = count
	}
	count.calls++
	count.last = time.Now()
	t.upstreams.Put(upstream, on) // starts its time anew
	return count
}

// remove undoes add.
func (t *abandonedTable) remove(upstream UpstreamKey, count *abandonedCount) {
	count.calls--
	on, known := t.upstreams.Get(upstream)
	if !known {
		return
	}
	if t.dropExpired(*on); len(*on) == 0 {
		t.upstreams.Delete(upstream)
	}
}

// find returns the clients of the abandoned calls of a connection, empty if there are
// none.
func (t *abandonedTable) find(upstream UpstreamKey) abandonedCalls {
	on, known := t.upstreams.Get(upstream)
	if !known {
		return nil
	}
	t.dropExpired(*on)
	return *on
}

// dropExpired forgets the clients whose calls have all been noticed, or were abandoned
// too long ago.
func (t *abandonedTable) dropExpired(on abandonedCalls) {
	for client, count := range on {
		if count.calls == 0 || time.Since(count.last) >= t.maxAge {
			delete(on, client)
		}
	}
}

// areOf reports whether all abandoned calls are those of one client.
func (on abandonedCalls) areOf(client callClient) bool {
	for other := range on {
		if other != client {
			return false
		}
	}
	return true
}

// ConfirmUpstreamEnd says that the upstream is done with the call: it has answered the
// request, or acknowledged that it was cancelled, or its connection is closed. Questions
// that come later are not about this call, so that it makes none ambiguous any more.
// Hosts call it when they learn it, before or after [Call.End]; without it an abandoned
// call counts for Options.MaxTimeout. It may be called again.
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

// HasAbandonedCalls reports whether the upstream of a connection may still work on calls
// that were abandoned: until it is done with them, [Router.ElicitFrom] refuses questions
// on the connection that do not say which call they belong to, unless all calls there are
// those of one client. A host whose upstream cannot say when it is done, as over stdio,
// gives further calls a new connection.
func (r *Router) HasAbandonedCalls(upstream UpstreamKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.abandoned.find(upstream)) > 0
}
