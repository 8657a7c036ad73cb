package gosdk

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// progressTimeout bounds the sending of progress to the upstream, which delays the
// client's next message.
const progressTimeout = time.Second

// receiveProgress is the receiving middleware that passes clients' progress on questions
// to the router, which extends their timeout. All other progress is passed on.
func (d *Downstream) receiveProgress(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if method == protocol.NotifyProgress && d.extendQuestion(req) {
			return nil, nil
		}
		return next(ctx, method, req)
	}
}

// extendQuestion reports whether req was progress on a question.
func (d *Downstream) extendQuestion(req mcp.Request) bool {
	ss, ok := req.GetSession().(*mcp.ServerSession)
	if !ok {
		return false
	}
	d.mu.Lock()
	session := d.sessions[ss]
	d.mu.Unlock()
	if session == nil {
		return false // no call has begun in the session
	}
	return upstream.ExtendQuestion(d.router, session.Session, d.opts.Principal(req.GetExtra()),
		req.GetParams())
}

// newProgressReporter returns a function that sends progress on a question to the upstream
// which asked it, if that gave a token.
func newProgressReporter(ctx context.Context,
	asking *mcp.ClientSession) func(*protocol.Progress) {
	return func(p *protocol.Progress) {
		if p.Token.IsZero() {
			return
		}
		told, err := encodeProgress(p)
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, progressTimeout)
		defer cancel()
		_ = asking.NotifyProgress(ctx, told) // progress may be lost; the answer follows
	}
}

// encodeProgress converts progress to the SDK's type.
func encodeProgress(p *protocol.Progress) (*mcp.ProgressNotificationParams, error) {
	out := &mcp.ProgressNotificationParams{Message: p.Message, Progress: p.Progress}
	if p.Total != nil {
		out.Total = *p.Total
	}
	return out, json.Unmarshal([]byte(p.Token.String()), &out.ProgressToken)
}

// progressToken returns the token of a request, zero for none.
func progressToken(req mcp.Request) protocol.ProgressToken {
	with, ok := req.GetParams().(mcp.RequestParams)
	if !ok || reflect.ValueOf(with).IsZero() { // a nil pointer: the client sent no params
		return protocol.ProgressToken{}
	}
	return upstream.DecodeToken(with.GetProgressToken())
}

// DeliverProgress implements [elicitation.ProgressDeliverer].
func (a asker) DeliverProgress(ctx context.Context, p *protocol.Progress) error {
	params, err := encodeProgress(p)
	if err != nil {
		return err
	}
	return a.session.NotifyProgress(ctx, params)
}

// RelayProgress sends progress of the upstream on call to the call's client, as
// [elicitation.Call.RelayProgress] does. It is for the ProgressNotificationHandler of the
// upstream connection. Relay nothing for a call whose Origin has no ProgressToken: its
// client asked for none.
func RelayProgress(
	ctx context.Context, call *elicitation.Call, p *mcp.ProgressNotificationParams,
) error {
	relayed := &protocol.Progress{Progress: p.Progress, Message: p.Message}
	if total := p.Total; total != 0 {
		relayed.Total = &total
	}
	return call.RelayProgress(ctx, relayed)
}
