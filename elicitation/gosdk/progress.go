package gosdk

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/protocol"
)

// progressTimeout bounds how long the upstream may take to hear that somebody is
// still at it: the client's next message waits meanwhile.
const progressTimeout = time.Second

// hearProgress is the receiving middleware that hands the router what clients
// report about questions, so that those do not time out. The rest is the host's.
func (d *Downstream) hearProgress(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == protocol.NotifyProgress && d.progressed(ctx, req) {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

// progressed tells whether req was about a question.
func (d *Downstream) progressed(ctx context.Context, req mcp.Request) bool {
	ss, ok := req.GetSession().(*mcp.ServerSession)
	if !ok {
		return false
	}
	d.mu.Lock()
	session := d.sessions[ss]
	d.mu.Unlock()
	if session == nil {
		return false // has no call, and so no question
	}
	params, err := json.Marshal(req.GetParams())
	if err != nil {
		return false
	}
	from := session.From()
	if principal := d.opts.Principal(req); !principal.Anonymous() {
		from.Principal = principal
	}
	n := &protocol.Notification{Method: protocol.NotifyProgress, Params: params}
	disposition, err := d.router.Progress(ctx, from, n)
	return err == nil && disposition != elicitation.Unknown
}

// tellProgress returns what passes progress on to the upstream that asked, if it
// wants to know.
func tellProgress(ctx context.Context, upstream *mcp.ClientSession) func(*protocol.Progress) {
	return func(p *protocol.Progress) {
		if p.Token.IsZero() {
			return
		}
		told := &mcp.ProgressNotificationParams{Message: p.Message, Progress: p.Progress}
		if json.Unmarshal([]byte(p.Token.String()), &told.ProgressToken) != nil {
			return
		}
		if p.Total != nil {
			told.Total = *p.Total
		}
		ctx, cancel := context.WithTimeout(ctx, progressTimeout)
		defer cancel()
		_ = upstream.NotifyProgress(ctx, told) // the answer will tell it, too
	}
}
