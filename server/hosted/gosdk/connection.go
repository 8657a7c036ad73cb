package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// leaveTimeout is how long a handler may go on whose call has been given up. Handlers that look at
// their context return at once; no call is to hang on one that does not.
const leaveTimeout = 5 * time.Second

// A connection is a transport of the SDK and its connection, in memory.
type connection struct {
	of      *session
	session *mcp.ServerSession
	in      chan jsonrpc.Message
	closed  chan struct{}
	once    sync.Once

	mu      sync.Mutex
	last    float64
	waiting map[any]*pending // by the id of the request
}

// A pending request has not been answered.
type pending struct {
	answered chan *protocol.Response
	run      *run // nil: of this package's own
}

var _ mcp.Connection = (*connection)(nil)

func newConnection(x *session) *connection {
	return &connection{of: x, in: make(chan jsonrpc.Message), closed: make(chan struct{}),
		waiting: map[any]*pending{}}
}

// Connect implements [mcp.Transport].
func (c *connection) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements [mcp.Connection].
func (c *connection) SessionID() string { return c.of.caller.SessionID }

// Read implements [mcp.Connection].
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements [mcp.Connection]. The SDK closes the connection when either side ends the
// session.
func (c *connection) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.of.end()
	return nil
}

// shut ends the SDK's session. Handlers that go on are not waited for.
func (c *connection) shut() {
	_ = c.Close()
	if c.session != nil {
		go func() { _ = c.session.Close() }()
	}
}

// deliver hands a message to the SDK.
func (c *connection) deliver(ctx context.Context, m jsonrpc.Message) error {
	select {
	case c.in <- m:
		return nil
	case <-c.closed:
		return fmt.Errorf("gosdk: %w", protocol.ErrSessionGone)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *connection) notify(ctx context.Context, n *protocol.Notification) error {
	return c.deliver(ctx, &jsonrpc.Request{Method: n.Method, Params: n.Params})
}

// send sends a request and returns the response. r is nil for a request that no handler serves.
func (c *connection) send(ctx context.Context, req *protocol.Request, r *run) (
	*protocol.Response, error) {
	own := &jsonrpc.Request{Method: req.Method, Params: req.Params}
	p := &pending{answered: make(chan *protocol.Response, 1), run: r}
	if r != nil {
		own.Extra = r.extra
		c.of.peer.runs.Store(r.extra, r)
		defer c.of.peer.runs.Delete(r.extra)
		defer r.end()
	}
	c.mu.Lock()
	c.last++
	own.ID, _ = jsonrpc.MakeID(c.last) // a number always makes one
	c.waiting[own.ID.Raw()] = p
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, own.ID.Raw())
	}()
	if err := c.deliver(ctx, own); err != nil {
		return nil, err
	}
	response, err := c.await(ctx, p)
	if r != nil {
		r.panicAgain()
	}
	if response != nil {
		response.ID = req.ID
	}
	return response, err
}

func (c *connection) await(ctx context.Context, p *pending) (*protocol.Response, error) {
	select {
	case response := <-p.answered:
		return response, nil
	case <-c.closed:
		return c.answerOf(p)
	case <-ctx.Done():
	}
	select {
	case response := <-p.answered:
		return response, nil
	case <-c.closed:
		return c.answerOf(p)
	case <-time.After(leaveTimeout):
		return nil, fmt.Errorf("gosdk: the handler goes on after its call: %w",
			context.Cause(ctx))
	}
}

// answerOf returns the response to a request that came before the end of the session.
func (c *connection) answerOf(p *pending) (*protocol.Response, error) {
	select {
	case response := <-p.answered:
		return response, nil
	default:
		return nil, fmt.Errorf("gosdk: %w", protocol.ErrSessionGone)
	}
}

// Write implements [mcp.Connection]. It runs on the goroutine that sends, with its context.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		c.mu.Lock()
		p := c.waiting[m.ID.Raw()]
		c.mu.Unlock()
		if p != nil {
			select {
			case p.answered <- &protocol.Response{Result: m.Result, Error: errorFrom(m.Error)}:
			default: // twice
			}
		}
	case *jsonrpc.Request:
		if m.IsCall() {
			return c.answer(ctx, m)
		}
		c.passOn(ctx, m)
	}
	return nil
}

// answer answers a request of the SDK's server to the client.
func (c *connection) answer(ctx context.Context, m *jsonrpc.Request) error {
	answer := &jsonrpc.Response{ID: m.ID}
	switch r := c.runOf(ctx); {
	case m.Method == protocol.MethodPing:
		answer.Result = json.RawMessage("{}")
	case r == nil:
		answer.Result, answer.Error = call(ctx, c.of.back, m)
	default:
		answer.Result, answer.Error = r.ask(ctx, m)
	}
	return c.deliver(context.WithoutCancel(ctx), answer)
}

// call puts a question to back.
func call(ctx context.Context, back protocol.BackCaller, m *jsonrpc.Request) (
	json.RawMessage, error) {
	response, err := back.Call(ctx, &protocol.Request{ID: protocol.StringID(m.Method),
		Method: m.Method, Params: m.Params})
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	if e := response.Error; e != nil {
		return nil, &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	return response.Result, nil
}

// passOn passes on a notification.
func (c *connection) passOn(ctx context.Context, m *jsonrpc.Request) {
	n := &protocol.Notification{Method: m.Method, Params: m.Params}
	switch r := c.runOf(ctx); {
	case m.Method == protocol.NotifyCancelled: // of a question whose context has ended
	case r != nil && !isAnnouncement(m.Method):
		_ = r.back.Notify(ctx, n)
	default:
		_ = c.of.back.Notify(ctx, n)
	}
}

// isAnnouncement reports whether a notification belongs to no request, whoever sends it.
func isAnnouncement(method string) bool {
	switch method {
	case protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged,
		protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated:
		return true
	}
	return false
}

// runOf returns the run whose handler sends something: by the context that it sends with, or the
// only one of the session.
func (c *connection) runOf(ctx context.Context) *run {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		return r
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var only *run
	for _, p := range c.waiting {
		if p.run == nil {
			continue
		}
		if only != nil {
			return nil
		}
		only = p.run
	}
	return only
}

// errorFrom returns an error of the SDK as rondo has it.
func errorFrom(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &protocol.Error{Code: e.Code, Message: err.Error(), Data: e.Data}
	}
	return protocol.Errorf(protocol.CodeInternalError, "%s", err.Error())
}
