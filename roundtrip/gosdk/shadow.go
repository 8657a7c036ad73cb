//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and supported for as long as they are

package gosdk

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// connectShadow connects a session that stands in for the client's while a handler
// runs: of the same client, in another revision. Nothing is behind it; what is
// sent over it is answered by the sending middleware, or passed on to the
// client's session.
func (a *adapter) connectShadow(run *handlerRun, version protocol.Version) (*mcp.ServerSession, error) {
	caps := run.call.declared
	if caps == nil {
		caps = &mcp.ClientCapabilities{}
	}
	if a.unmodified && a.mustAsk {
		all := *caps // so that the SDK hands on questions that must not be dropped
		all.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}
		caps = &all
	}
	state := &mcp.ServerSessionState{
		InitializeParams: &mcp.InitializeParams{
			ProtocolVersion: string(version), Capabilities: caps, ClientInfo: run.call.client,
		},
		InitializedParams:         &mcp.InitializedParams{},
		NegotiatedProtocolVersion: string(version),
		// What is logged is passed on, and the client's session knows better.
		LogLevel: "debug",
	}
	session, err := a.server.Connect(context.WithoutCancel(run.ctx), shadowTransport{run.call.session.ID()}, &mcp.ServerSessionOptions{State: state})
	if err != nil {
		return nil, err
	}
	a.shadows.Store(session, run)
	return session, nil
}

// closeShadow closes a shadow. What a handler that outlives its call sends over it
// then fails.
func (a *adapter) closeShadow(session *mcp.ServerSession) {
	a.shadows.Delete(session)
	_ = session.Close()
}

// forwardMessage sends what is no question over the client's session. What the server
// tells all its sessions it tells the client's, too.
func (run *handlerRun) forwardMessage(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	switch method {
	case protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged, protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated:
		return nil, nil
	}
	real := run.call.session
	if params, ok := req.GetParams().(*mcp.LoggingMessageParams); ok {
		return nil, real.Log(ctx, params)
	}
	return next(ctx, method, &mcp.ServerRequest[mcp.Params]{Session: real, Params: req.GetParams()})
}

// shadowTransport is a transport without another end.
type shadowTransport struct{ id string }

// Connect returns the connection.
func (t shadowTransport) Connect(context.Context) (mcp.Connection, error) {
	return &shadowConnection{id: t.id, closed: make(chan struct{}), replies: make(chan jsonrpc.Message, 1)}, nil
}

// shadowConnection is at the other end of a shadow: it answers every request that it does
// not serve it. Without an answer, who sends with a context of its own would
// wait for ever.
type shadowConnection struct {
	id      string
	once    sync.Once
	closed  chan struct{}
	replies chan jsonrpc.Message
}

// Read returns the next answer.
func (n *shadowConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-n.replies:
		return m, nil
	case <-n.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Write answers requests and takes everything else for sent.
func (n *shadowConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	req, ok := m.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return nil
	}
	reply := &jsonrpc.Response{ID: req.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "nobody is there"}}
	select {
	case n.replies <- reply:
		return nil
	case <-n.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the connection.
func (n *shadowConnection) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// SessionID returns the id of the client's session.
func (n *shadowConnection) SessionID() string { return n.id }
