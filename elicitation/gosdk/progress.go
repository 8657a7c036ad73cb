package gosdk

import (
	"context"
	"encoding/json"
	"reflect"
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
		told, err := sdkProgress(p)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, progressTimeout)
		defer cancel()
		_ = upstream.NotifyProgress(ctx, told) // the answer will tell it, too
	}
}

// sdkProgress spells progress for the SDK.
func sdkProgress(p *protocol.Progress) (*mcp.ProgressNotificationParams, error) {
	out := &mcp.ProgressNotificationParams{Message: p.Message, Progress: p.Progress}
	if p.Total != nil {
		out.Total = *p.Total
	}
	return out, json.Unmarshal([]byte(p.Token.String()), &out.ProgressToken)
}

// progressToken returns the token of a request, zero for none. The SDK hands on
// whatever JSON the client sent; what is no token counts as none.
func progressToken(req mcp.Request) protocol.ProgressToken {
	with, ok := req.GetParams().(mcp.RequestParams)
	if !ok || reflect.ValueOf(with).IsZero() { // a nil pointer: the client sent no params
		return protocol.ProgressToken{}
	}
	data, err := json.Marshal(with.GetProgressToken())
	if err != nil {
		return protocol.ProgressToken{}
	}
	token, err := protocol.ParseID(data)
	if err != nil {
		return protocol.ProgressToken{}
	}
	return token
}

// DeliverProgress implements [elicitation.ProgressDeliverer].
func (a asker) DeliverProgress(ctx context.Context, p *protocol.Progress) error {
	params, err := sdkProgress(p)
	if err != nil {
		return err
	}
	return a.session.NotifyProgress(ctx, params)
}

// RelayProgress passes on to the client of call what the upstream reports about it,
// as [elicitation.Call.RelayProgress] does. It is for the ProgressNotificationHandler
// of the upstream connection. Relay nothing for a call whose Origin has no
// ProgressToken: its client wants none.
func RelayProgress(
	ctx context.Context, call *elicitation.Call, p *mcp.ProgressNotificationParams,
) error {
	relayed := &protocol.Progress{Progress: p.Progress, Message: p.Message}
	if total := p.Total; total != 0 {
		relayed.Total = &total
	}
	return call.RelayProgress(ctx, relayed)
}
