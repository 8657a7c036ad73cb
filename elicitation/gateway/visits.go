package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// maxVisits is how many visits of one connection may be without an end. One call has a few.
const maxVisits = 100

// visits are those that an upstream has asked for on a connection, by its own ids. Their ends are
// announced to the sessions that were asked, under ids of the gateway (2025-11-25
// client/elicitation, "Completion Notifications"); clients of 2026-07-28 know of none. They may
// end long after their calls, so nothing of a call is kept but its session.
type visits struct {
	mu      sync.Mutex
	session *server.Session // of the call that runs on the connection, nil: nobody is told
	of      map[string]visit
}

type visit struct {
	id      string
	session *server.Session
}

// setSession says whom the visits that follow are asked of.
func (v *visits) setSession(session *server.Session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.session = session
}

// add returns the id under which the client of the call is asked, empty where it has no session.
func (v *visits) add(upstreamID string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.session == nil {
		return ""
	}
	if known, ok := v.of[upstreamID]; ok && known.session == v.session {
		return known.id
	}
	id := rand.Text()
	if v.of == nil {
		v.of = map[string]visit{}
	}
	for other, asked := range v.of {
		if asked.session.Lifetime().Err() != nil {
			delete(v.of, other)
		}
	}
	if len(v.of) < maxVisits {
		v.of[upstreamID] = visit{id, v.session}
	}
	return id
}

// remove returns the visit that has ended, if it is known.
func (v *visits) remove(upstreamID string) (asked visit, running, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	asked, ok = v.of[upstreamID]
	delete(v.of, upstreamID)
	return asked, asked.session == v.session, ok
}

// passOnVisitEnd announces the end of a visit to the client that was asked for it, and to nobody
// else: on the stream of its call while that runs.
func (c *connection) passOnVisitEnd(ctx context.Context, n *protocol.Notification) {
	var completed protocol.ElicitationCompleted
	if n.Method != protocol.NotifyElicitationCompleted ||
		json.Unmarshal(n.Params, &completed) != nil {
		return
	}
	asked, running, ok := c.visits.remove(completed.ElicitationID)
	if !ok {
		return
	}
	// An error of either says that the session is over.
	if parked := c.parked.Load(); running && parked != nil && parked.Session() != nil {
		_ = parked.Session().ElicitationComplete(ctx, asked.id)
		return
	}
	params, err := json.Marshal(protocol.ElicitationCompleted{ElicitationID: asked.id})
	if err == nil {
		_ = asked.session.Send(ctx, &protocol.Notification{
			Method: protocol.NotifyElicitationCompleted, Params: params})
	}
}

func (c *connection) askURL(
	ctx context.Context, q *client.URLQuestion,
) (*protocol.ElicitResult, error) {
	visit := &protocol.ElicitURL{Message: q.Message, URL: q.URL}
	visit.ElicitationID = c.visits.add(q.ElicitationID)
	a, err := c.ask(ctx, visit)
	if err != nil {
		return nil, err
	}
	return a.ElicitResult(), nil
}
