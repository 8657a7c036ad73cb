package gosdk

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/limits/heartbeat"
	"github.com/rondo-mcp/rondo/protocol"
)

// reports sends the progress notifications of one call: those of its handler, and
// heartbeats while the call waits for a person. Its values increase, whoever reports.
type reports struct {
	session *mcp.ServerSession
	token   any

	mu     sync.Mutex // held while a notification is sent, since values must not fall
	values heartbeat.Sequence
	over   bool // the call has ended
}

// reportsKey identifies a call whose client asked for progress.
type reportsKey struct {
	session *mcp.ServerSession
	token   any
}

type heartbeatKey struct{}

// followProgress sends heartbeats while the call waits, if its client asked for
// progress, until end is called. Calls of modern revisions get none: those wait in
// [roundtrip.Await] alone, for [roundtrip.MaxVisitHold] at most.
func (c *call) followProgress(token any) (end func()) {
	if token == nil || c.Push == nil {
		return func() {}
	}
	r := &reports{session: c.session, token: token}
	c.Heartbeat = r.sendHeartbeat
	key := reportsKey{c.session, token}
	c.adapter.reports.Store(key, r)
	return func() {
		r.stopHeartbeats()
		c.adapter.reports.CompareAndDelete(key, r)
	}
}

// stopHeartbeats refuses heartbeats after the end of the call: a goroutine that the handler
// left behind may still wait for a person.
func (r *reports) stopHeartbeats() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// sendHeartbeat sends a heartbeat. It ignores errors: the end of a connection is
// reported to the call itself.
func (r *reports) sendHeartbeat(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	value, total, ok := r.values.Beat()
	if !ok {
		return
	}
	_ = r.session.NotifyProgress(context.WithValue(ctx, heartbeatKey{}, true),
		&mcp.ProgressNotificationParams{
			ProgressToken: r.token, Progress: value, Total: total, Message: heartbeat.Message,
		})
}

// sendReport sends the progress that a handler reports. The value is raised where
// heartbeats have gone further.
func (r *reports) sendReport(params *mcp.ProgressNotificationParams,
	send func(mcp.Params) (mcp.Result, error)) (mcp.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.values.Relay(params.Progress, params.Total)
	switch {
	case !ok:
		return nil, nil // it does not exceed the last value, which clients may rely on
	case value == params.Progress:
		return send(params)
	}
	raised := *params
	raised.Progress = value
	return send(&raised)
}

// findReports returns the reports of the call that a progress notification belongs to,
// nil for heartbeats and for every other message.
func (a *Adapter) findReports(ctx context.Context, method string, req mcp.Request,
	session *mcp.ServerSession) (*reports, *mcp.ProgressNotificationParams) {
	params, ok := req.GetParams().(*mcp.ProgressNotificationParams)
	if !ok || params == nil || method != protocol.NotifyProgress ||
		ctx.Value(heartbeatKey{}) != nil {
		return nil, nil
	}
	if behind, shadow := a.shadows.Load(session); shadow {
		session = behind.(*handlerRun).call.session
	}
	if !isToken(params.ProgressToken) {
		return nil, nil
	}
	r, _ := a.reports.Load(reportsKey{session, params.ProgressToken})
	found, _ := r.(*reports)
	return found, params
}

// progressToken returns the progress token of a request, nil for none. The SDK does not
// check the type of the token; one of another type than string or number counts as none.
func progressToken(req mcp.Request) any {
	with, ok := req.GetParams().(mcp.RequestParams)
	if !ok {
		return nil
	}
	if token := with.GetProgressToken(); isToken(token) {
		return token
	}
	return nil
}

// isToken reports whether v is a string or a number. Other values, such as an array,
// could not be the key of a map.
func isToken(v any) bool {
	switch v.(type) {
	case string, int, int32, int64, float64:
		return true
	}
	return false
}
