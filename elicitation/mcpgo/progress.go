package mcpgo

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// progressTimeout bounds the sending of progress on a question to
// the upstream: on standard input and output mcp-go reads nothing else of the client
// meanwhile.
const progressTimeout = time.Second

// receiveProgress passes clients' progress on questions to the router, which extends their
// timeout. All other progress goes to Options.HandleProgress.
func (d *Downstream) receiveProgress(ctx context.Context, n mcp.JSONRPCNotification) {
	if !d.extendQuestion(ctx, n) && d.opts.HandleProgress != nil {
		d.opts.HandleProgress(ctx, n)
	}
}

// extendQuestion reports whether n was progress on a question.
func (d *Downstream) extendQuestion(ctx context.Context, n mcp.JSONRPCNotification) bool {
	d.mu.Lock()
	known := d.sessions[server.ClientSessionFromContext(ctx)]
	var session *elicitation.Session
	if known != nil {
		session = known.session
	}
	d.mu.Unlock()
	if session == nil {
		return false // no call has begun in the session
	}
	return upstream.ExtendQuestion(d.router, session, d.principalOf(ctx), n.Params)
}

// transportKey is the context key of the connection on which [Transport] received a
// question.
type transportKey struct{}

// A progressReporter sends the client's progress on one question to the upstream which
// asked it, on a goroutine of its own, so that it does not delay the client's messages.
// While one report is being sent only the last of those that follow is kept.
type progressReporter struct {
	ctx  context.Context
	over transport.Interface

	mu      sync.Mutex
	next    *protocol.Progress // to be sent
	sending bool
	stopped bool
}

// newProgressReporter returns the reporter of a question whose handler has ctx, nil where
// the connection is not known.
func newProgressReporter(ctx context.Context) *progressReporter {
	over, ok := ctx.Value(transportKey{}).(transport.Interface)
	if !ok {
		return nil
	}
	return &progressReporter{ctx: ctx, over: over}
}

// reportProgress sends p, if the upstream gave a token. It does not block.
func (r *progressReporter) reportProgress(p *protocol.Progress) {
	if p.Token.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	r.next = p
	if !r.sending {
		r.sending = true
		go r.sendReports()
	}
}

// stopReporting drops all further progress: the question has ended. r may be nil.
func (r *progressReporter) stopReporting() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped, r.next = true, nil
}

func (r *progressReporter) sendReports() {
	for {
		r.mu.Lock()
		p := r.next
		r.next = nil
		r.sending = p != nil
		r.mu.Unlock()
		if p == nil {
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, progressTimeout)
		_ = r.over.SendNotification(ctx, encodeProgress(p)) // may be lost; the answer follows
		cancel()
	}
}

// encodeProgress converts progress to mcp-go's type.
func encodeProgress(p *protocol.Progress) mcp.JSONRPCNotification {
	fields := map[string]any{"progressToken": json.RawMessage(p.Token.String()),
		"progress": p.Progress}
	if p.Total != nil {
		fields["total"] = *p.Total
	}
	if p.Message != "" {
		fields["message"] = p.Message
	}
	return mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION, Notification: mcp.Notification{
		Method: protocol.NotifyProgress, Params: mcp.NotificationParams{AdditionalFields: fields},
	}}
}
