//lint:file-ignore SA1019 logging is deprecated, and supported for as long as it exists

package gosdk

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
)

// An upstreamConn is a connection of an [Upstream] and the calls that use it.
type upstreamConn struct {
	up      *Upstream
	key     elicitation.UpstreamKey
	modes   modes
	session *mcp.ClientSession
	answers *upstream.Book // nil: nobody sees whether answers arrive
	ended   chan struct{}  // closed when the session has ended
	lists   atomic.Bool    // its changes of lists count

	mu     sync.Mutex
	last   int64
	tags   map[string]*passedCall // by the id of the call
	tokens map[string]*passedCall // by the progress token
}

func newUpstreamConn(u *Upstream, m modes) *upstreamConn {
	return &upstreamConn{
		up: u, key: newKey(u.opts.Name), modes: m, ended: make(chan struct{}),
		tags: make(map[string]*passedCall), tokens: make(map[string]*passedCall),
	}
}

func (c *upstreamConn) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// A passedCall is a call that is in flight upstream, and the messages about it that its
// client is to get.
type passedCall struct {
	call   *elicitation.Call
	ctx    context.Context // of the client's request, from which the SDK finds the stream
	client *mcp.ServerSession
	token  string

	messages upstream.Queue
}

func (c *upstreamConn) addCall(ctx context.Context, call *elicitation.Call,
	client *mcp.ServerSession) *passedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	p := &passedCall{
		call: call, ctx: ctx, client: client, token: "call-" + strconv.FormatInt(c.last, 10),
	}
	c.tags[call.Origin().CallID], c.tokens[p.token] = p, p
	return p
}

// removeCall takes no more messages about the call and waits for those that it has.
func (c *upstreamConn) removeCall(p *passedCall) {
	c.mu.Lock()
	delete(c.tags, p.call.Origin().CallID)
	delete(c.tokens, p.token)
	c.mu.Unlock()
	p.messages.Finish(p.ctx)
}

// relay is the receiving middleware that passes progress and log messages on to the client
// of the call that they are about.
func (c *upstreamConn) relay(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ProgressNotificationClientRequest:
			_, _ = takeTag(r.Params.Meta) // the token says more: of which request it is
			token, _ := r.Params.ProgressToken.(string)
			if p := c.findByToken(token); p != nil {
				p.messages.Add(func() { _ = RelayProgress(p.ctx, p.call, r.Params) })
				return nil, nil
			}
		case *mcp.LoggingMessageRequest:
			tag, _ := takeTag(r.Params.Meta)
			if p := c.findByTag(tag); p != nil {
				p.messages.Add(func() { _ = p.client.Log(p.ctx, r.Params) })
				return nil, nil
			}
		}
		return next(ctx, method, req)
	}
}

func (c *upstreamConn) findByToken(token string) *passedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[token]
}

// findByTag returns the call with an id, or the only one of a connection that serves one at
// a time.
func (c *upstreamConn) findByTag(tag string) *passedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tag == "" && !c.up.shares && len(c.tags) == 1 {
		for _, p := range c.tags {
			return p
		}
	}
	return c.tags[tag]
}
