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
// client/elicitation, "Completion Notifications"); clients of 2026-07-28 know of none.
type visits struct {
	mu sync.Mutex
	of map[string]visit
}

type visit struct {
	id   string
	call *server.Call
}

// add returns the id under which the client of a call is asked.
func (v *visits) add(upstreamID string, call *server.Call) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.of[upstreamID]; ok && known.call == call {
		return known.id
	}
	id := rand.Text()
	if v.of == nil {
		v.of = map[string]visit{}
	}
	if len(v.of) < maxVisits {
		v.of[upstreamID] = visit{id, call}
	}
	return id
}

// passOnEnd announces the end of a visit to the client that was asked for it, and to nobody else.
func (v *visits) passOnEnd(ctx context.Context, n *protocol.Notification) {
	var completed protocol.ElicitationCompleted
	if n.Method != protocol.NotifyElicitationCompleted ||
		json.Unmarshal(n.Params, &completed) != nil {
		return
	}
	v.mu.Lock()
	asked, ok := v.of[completed.ElicitationID]
	delete(v.of, completed.ElicitationID)
	v.mu.Unlock()
	if ok {
		_ = asked.call.ElicitationComplete(ctx, asked.id) // an error: the session is over
	}
}

func (c *connection) askURL(
	ctx context.Context, q *client.URLQuestion,
) (*protocol.ElicitResult, error) {
	visit := &protocol.ElicitURL{Message: q.Message, URL: q.URL}
	if parked := c.parked.Load(); parked != nil && parked.Session() != nil {
		visit.ElicitationID = c.visits.add(q.ElicitationID, parked.Session())
	}
	a, err := c.ask(ctx, visit)
	if err != nil {
		return nil, err
	}
	return a.ElicitResult(), nil
}
