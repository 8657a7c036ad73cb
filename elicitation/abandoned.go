package elicitation

import (
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/recent"
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
	// abandonedPeriods is how many periods the time is divided into for which abandoned
	// calls are remembered. Those of one client and one period are remembered together,
	// for as long as the last of them.
	abandonedPeriods = 16
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

// abandonedCalls are the abandoned calls of one connection, by their client, those that were
// abandoned first in front.
type abandonedCalls map[callClient][]*abandonedGroup

// An abandonedGroup is the calls of one client that were abandoned in one period.
type abandonedGroup struct {
	calls       int // with which the upstream is not done
	first, last time.Time
}

// add counts an abandoned call. The caller gives the group to remove when the upstream is
// done with the call.
func (t *abandonedTable) add(upstream UpstreamKey, client callClient) *abandonedGroup {
	on, known := t.upstreams.Get(upstream)
	if !known {
		on = &abandonedCalls{}
	}
	t.dropOver(*on)
	if (*on)[client] == nil && len(*on) >= maxAbandoningClients {
		client = callClient{} // sessions have ids, so that it is the client of no call
	}
	groups, now := (*on)[client], time.Now()
	if n := len(groups); n == 0 || now.Sub(groups[n-1].first) > t.maxAge/abandonedPeriods {
		groups = append(groups, &abandonedGroup{first: now})
	}
	group := groups[len(groups)-1]
	group.calls++
	group.last = now
	(*on)[client] = groups
	t.upstreams.Put(upstream, on) // starts its time anew
	return group
}

// remove undoes add.
func (t *abandonedTable) remove(upstream UpstreamKey, group *abandonedGroup) {
	group.calls--
	if len(t.find(upstream)) == 0 {
		t.upstreams.Delete(upstream)
	}
}

// find returns the abandoned calls of a connection, empty if there are none.
func (t *abandonedTable) find(upstream UpstreamKey) abandonedCalls {
	on, known := t.upstreams.Get(upstream)
	if !known {
		return nil
	}
	t.dropOver(*on)
	return *on
}

// dropOver forgets the calls with which the upstream is done, or that were abandoned too
// long ago.
func (t *abandonedTable) dropOver(on abandonedCalls) {
	for client, groups := range on {
		groups = slices.DeleteFunc(groups, func(g *abandonedGroup) bool {
			return g.calls == 0 || time.Since(g.last) >= t.maxAge
		})
		if on[client] = groups; len(groups) == 0 {
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

// ConfirmUpstreamEnd reports that the upstream is done with the call: it has answered the
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
