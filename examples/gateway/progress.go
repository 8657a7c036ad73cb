package main

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// upstreamToken is what upstreams report progress under. A connection serves one
// call, so one token will do; the client's may be of a type that the SDK's
// clients do not send.
const upstreamToken = "call"

// A progressRelay passes what an upstream reports about a call on to the client
// that made the call and asked for progress. A nil relay passes nothing on.
type progressRelay struct {
	ctx     context.Context // of the call: it holds the stream that reports go out on
	session *mcp.ServerSession
	token   any

	mu    sync.Mutex
	ended bool
}

// newProgressRelay returns nil for a client that does not want progress.
func newProgressRelay(ctx context.Context, req *mcp.CallToolRequest) *progressRelay {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	return &progressRelay{ctx: ctx, session: req.Session, token: token}
}

// clientOptions returns the options of the connection that the call goes on.
func (r *progressRelay) clientOptions() *mcp.ClientOptions {
	if r == nil {
		return nil
	}
	return &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			r.report(req.Params)
		},
	}
}

// report passes one report on, unless the call is over: nothing may follow its
// result, and the SDK may hand over the last reports after that. It waits for the client, so that reports stay in order.
func (r *progressRelay) report(p *mcp.ProgressNotificationParams) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || p.ProgressToken != upstreamToken {
		return
	}
	// A client that is gone hears nothing; the end of the call shows it.
	_ = r.session.NotifyProgress(r.ctx, &mcp.ProgressNotificationParams{
		ProgressToken: r.token, Progress: p.Progress, Total: p.Total, Message: p.Message,
	})
}

// end stops the relay before the call has its result.
func (r *progressRelay) end() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
}
