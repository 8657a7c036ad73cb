package gosdk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// A connection is an in-memory [mcp.Transport] and its [mcp.Connection].
type connection struct {
	of      *session
	session *mcp.ServerSession
	in      chan jsonrpc.Message
}

// connect opens a connection. Its context has no values, because all requests would see them.
func (x *session) connect(state *mcp.ServerSessionState) (*connection, error) {
	c := &connection{of: x, in: make(chan jsonrpc.Message)}
	var err error
	c.session, err = x.server.Connect(context.Background(), c,
		&mcp.ServerSessionOptions{State: state})
	return c, err
}

func (c *connection) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *connection) SessionID() string { return c.of.caller.SessionID }

func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	case <-c.of.life.Done():
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close is called by the SDK when either side has ended the session.
func (c *connection) Close() error {
	c.of.end()
	return nil
}

// The method shut ends the SDK's session. The channel is closed when its handlers have returned.
func (c *connection) shut() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.session.Close()
	}()
	return ended
}

// Write gets the sender's context. It returns no error, which would end the session.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	switch m := m.(type) {
	case *jsonrpc.Response:
		c.of.takeResponse(m)
	case *jsonrpc.Request:
		if m.IsCall() {
			answer := &jsonrpc.Response{ID: m.ID}
			answer.Result, answer.Error = c.of.answer(ctx, m)
			return c.of.deliver(context.Background(), c, answer)
		}
		c.of.passOn(ctx, m)
	}
	return nil
}

// takeResponse drops late responses.
func (x *session) takeResponse(m *jsonrpc.Response) {
	x.mu.Lock()
	r := x.waiting[m.ID.Raw()]
	x.mu.Unlock()
	if r == nil {
		return
	}
	select {
	case r.answered <- &protocol.Response{Result: m.Result, Error: errorFrom(m.Error)}:
	default: // a second response
	}
}

func (x *session) answer(ctx context.Context, m *jsonrpc.Request) (json.RawMessage, error) {
	if m.Method == protocol.MethodPing {
		return json.RawMessage("{}"), nil
	}
	if r := x.runOf(ctx, m); r != nil {
		return r.ask(ctx, m)
	}
	return call(ctx, x.back, m)
}

// call sends a question to back, whose errors the handler gets unchanged.
func call(ctx context.Context, back protocol.BackCaller, m *jsonrpc.Request) (
	json.RawMessage, error) {
	response, err := back.Call(ctx, &protocol.Request{ID: protocol.StringID(fmt.Sprint(m.ID.Raw())),
		Method: m.Method, Params: m.Params})
	if err != nil {
		return nil, err
	}
	if e := response.Error; e != nil {
		return nil, &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data}
	}
	return response.Result, nil
}

func (x *session) passOn(ctx context.Context, m *jsonrpc.Request) {
	if m.Method == protocol.NotifyCancelled { // cancels a question whose context has ended
		return
	}
	n := &protocol.Notification{Method: m.Method, Params: m.Params}
	if r := x.runOf(ctx, m); r == nil || !r.notify(ctx, n) {
		_ = x.back.Notify(ctx, n) // the session ends if the client is gone
	}
}

// runOf returns the run that sends a message, or nil. It is found by the context (maybe of another
// session) or the progress token; without context, questions and logs belong to the only run.
func (x *session) runOf(ctx context.Context, m *jsonrpc.Request) *run {
	if r, ok := ctx.Value(runKey{}).(*run); ok && r.session == x {
		return r
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if m.Method == protocol.NotifyProgress {
		token := progressToken(m.Params)
		for _, r := range x.waiting {
			if token != nil && bytes.Equal(token, r.progressToken()) {
				return r
			}
		}
		return nil
	}
	if len(x.waiting) == 1 && (m.IsCall() || m.Method == protocol.NotifyMessage) {
		for _, r := range x.waiting {
			return r
		}
	}
	return nil
}

func progressToken(params json.RawMessage) json.RawMessage {
	var p struct {
		Token json.RawMessage `json:"progressToken"`
	}
	_ = json.Unmarshal(params, &p) // the SDK has encoded them
	return p.Token
}

func errorFrom(err error) *protocol.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &protocol.Error{Code: e.Code, Message: err.Error(), Data: e.Data}
	}
	return protocol.Errorf(protocol.CodeInternalError, "%s", err.Error())
}
