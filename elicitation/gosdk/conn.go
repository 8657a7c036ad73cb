package gosdk

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
)

const (
	// maxRelayed is how many messages may wait for one client. Beyond it messages are
	// dropped: progress and logs may be lost, and one slow client must not hold up a
	// connection that others use.
	maxRelayed = 64
	// relayTimeout is how long a result waits for the messages before it.
	relayTimeout = 2 * time.Second
)

// An upstreamConn is a connection of an [Upstream] and the calls that use it.
type upstreamConn struct {
	up      *Upstream
	key     elicitation.UpstreamKey
	modes   modes
	session *mcp.ClientSession
	ended   chan struct{} // closed when the session has ended
	lists   atomic.Bool   // its changes of lists count

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

	mu      sync.Mutex
	queue   []func()
	sending bool
	over    bool
	idle    chan struct{} // closed when over and nothing is being sent
}

func (c *upstreamConn) addCall(ctx context.Context, call *elicitation.Call,
	client *mcp.ServerSession) *passedCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	p := &passedCall{
		call: call, ctx: ctx, client: client, token: "call-" + strconv.FormatInt(c.last, 10),
		idle: make(chan struct{}),
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
	p.finish()
}

// relay is the receiving middleware that passes progress and log messages on to the client
// of the call that they are about.
func (c *upstreamConn) relay(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ProgressNotificationClientRequest:
			_ = takeTag(r.Params.Meta) // the token says more: of which request it is
			token, _ := r.Params.ProgressToken.(string)
			if p := c.findByToken(token); p != nil {
				p.add(func() { _ = RelayProgress(p.ctx, p.call, r.Params) })
				return nil, nil
			}
		case *mcp.LoggingMessageRequest:
			if p := c.findByTag(takeTag(r.Params.Meta)); p != nil {
				p.add(func() { _ = p.client.Log(p.ctx, r.Params) })
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

// add sends a message after those before it. It does not block.
func (p *passedCall) add(send func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || len(p.queue) >= maxRelayed {
		return
	}
	p.queue = append(p.queue, send)
	if !p.sending {
		p.sending = true
		go p.sendQueued()
	}
}

func (p *passedCall) sendQueued() {
	for {
		p.mu.Lock()
		if len(p.queue) == 0 {
			p.sending = false
			if p.over {
				close(p.idle)
			}
			p.mu.Unlock()
			return
		}
		send := p.queue[0]
		p.queue = p.queue[1:]
		p.mu.Unlock()
		send()
	}
}

// finish takes no more messages and waits until those are sent that wait, or until it would
// delay the result for too long.
func (p *passedCall) finish() {
	p.mu.Lock()
	p.over = true
	if !p.sending {
		close(p.idle)
	}
	p.mu.Unlock()
	limit := time.NewTimer(relayTimeout)
	defer limit.Stop()
	select {
	case <-p.idle:
	case <-p.ctx.Done():
	case <-limit.C:
	}
}
