//lint:file-ignore SA1019 ping exists in older revisions, and tells whether an upstream answers

package mcpgo

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
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
	client   *client.Client
	ended    atomic.Bool
	lastUsed atomic.Int64 // Unix time in nanoseconds
	calls    int          // that share it; guarded by Upstream.mu

	mu     sync.Mutex
	last   int64
	tokens map[string]*passedCall // by the progress token
}

func newUpstreamConn(key elicitation.UpstreamKey) *upstreamConn {
	return &upstreamConn{key: key, tokens: make(map[string]*passedCall)}
}

// isAlive reports whether the upstream answers, if nothing was heard of it lately.
func (c *upstreamConn) isAlive(ctx context.Context) bool {
	if time.Since(time.Unix(0, c.lastUsed.Load())) < freshFor {
		return true
	}
	ctx, cancel := context.WithTimeout(UpstreamContext(ctx), pingTimeout)
	defer cancel()
	return c.client.Ping(ctx) == nil
}

// A passedCall is a call that is in flight upstream, and the messages about it that its
// client is to get.
type passedCall struct {
	call  *elicitation.Call
	ctx   context.Context // of the client's request, from which mcp-go finds the stream
	token string

	messages upstream.Queue
}

func (c *upstreamConn) addCall(ctx context.Context, call *elicitation.Call) *passedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	p := &passedCall{call: call, ctx: ctx, token: "call-" + strconv.FormatInt(c.last, 10)}
	c.tokens[p.token] = p
	return p
}

// removeCall takes no more messages about the call and waits for those that it has.
func (c *upstreamConn) removeCall(p *passedCall) {
	c.lastUsed.Store(time.Now().UnixNano())
	c.mu.Lock()
	delete(c.tokens, p.token)
	c.mu.Unlock()
	p.messages.Finish(p.ctx)
}

// relay passes progress and log messages on to the client of the call that they are about.
func (u *Upstream) relay(c *upstreamConn, n mcp.JSONRPCNotification) {
	switch n.Method {
	case protocol.NotifyProgress:
		token, _ := n.Params.AdditionalFields["progressToken"].(string)
		c.mu.Lock()
		p := c.tokens[token]
		c.mu.Unlock()
		if p != nil {
			p.messages.Add(func() { _ = RelayProgress(p.ctx, p.call, n) })
		}
	case protocol.NotifyToolsChanged:
		u.lists.UpdateLater(upstream.Tools)
	case protocol.NotifyPromptsChanged:
		u.lists.UpdateLater(upstream.Prompts)
	case protocol.NotifyResourcesChanged:
		u.lists.UpdateLater(upstream.Resources, upstream.ResourceTemplates)
	case protocol.NotifyMessage:
		if p := c.onlyCall(); p != nil && !u.shares {
			p.messages.Add(func() { u.relayLog(p, n) })
		}
	}
}

// onlyCall returns the call of a connection that serves one at a time.
func (c *upstreamConn) onlyCall() *passedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.tokens {
		return p
	}
	return nil
}

func (u *Upstream) relayLog(p *passedCall, n mcp.JSONRPCNotification) {
	data, err := json.Marshal(n)
	if err != nil {
		return
	}
	var message mcp.LoggingMessageNotification
	if json.Unmarshal(data, &message) == nil {
		_ = u.clients.server.SendLogMessageToClient(p.ctx, message)
	}
}
