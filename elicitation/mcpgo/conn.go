//lint:file-ignore SA1019 ping exists in older revisions, and tells whether an upstream answers

package mcpgo

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// freshFor is how long after a call a connection counts as alive without a ping.
const freshFor = 10 * time.Millisecond

// An upstreamConn is a connection of an [Upstream] and the calls that use it.
type upstreamConn struct {
	key      elicitation.UpstreamKey
	shared   bool // by several calls at once
	client   *client.Client
	ended    atomic.Bool
	lastUsed atomic.Int64 // Unix time in nanoseconds
	calls    upstream.Calls
}

// HasEnded implements [upstream.Conn].
func (c *upstreamConn) HasEnded() bool { return c.ended.Load() }

// IsAlive implements [upstream.Conn]. It asks the upstream if nothing was heard of it lately.
func (c *upstreamConn) IsAlive(ctx context.Context) bool {
	if time.Since(time.Unix(0, c.lastUsed.Load())) < freshFor {
		return true
	}
	ctx, cancel := context.WithTimeout(UpstreamContext(ctx), pingTimeout)
	defer cancel()
	return c.client.Ping(ctx) == nil
}

// Close implements [upstream.Conn].
func (c *upstreamConn) Close() {
	c.ended.Store(true)
	_ = c.client.Close() // the reason why it ended is of no use any more
}

// removeCall takes no more messages about the call and waits for those that it has.
func (c *upstreamConn) removeCall(call *upstream.Call) {
	c.lastUsed.Store(time.Now().UnixNano())
	c.calls.Remove(call)
}

// relay passes progress and log messages on to the client of the call that they are about.
func (u *Upstream) relay(c *upstreamConn, n mcp.JSONRPCNotification) {
	switch n.Method {
	case protocol.NotifyProgress:
		token, _ := n.Params.AdditionalFields["progressToken"].(string)
		if call := c.calls.FindByToken(token); call != nil {
			call.Messages.Add(func() { _ = RelayProgress(call.Context, call.Call, n) })
		}
	case protocol.NotifyToolsChanged:
		u.conns.Lists.UpdateLater(upstream.Tools)
	case protocol.NotifyPromptsChanged:
		u.conns.Lists.UpdateLater(upstream.Prompts)
	case protocol.NotifyResourcesChanged:
		u.conns.Lists.UpdateLater(upstream.Resources, upstream.ResourceTemplates)
	case protocol.NotifyMessage:
		if call := c.calls.FindOnly(); call != nil && !c.shared {
			call.Messages.Add(func() { u.relayLog(call, n) })
		}
	}
}

func (u *Upstream) relayLog(call *upstream.Call, n mcp.JSONRPCNotification) {
	data, err := json.Marshal(n)
	if err != nil {
		return
	}
	var message mcp.LoggingMessageNotification
	if json.Unmarshal(data, &message) == nil {
		_ = u.clients.server.SendLogMessageToClient(call.Context, message)
	}
}
