//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

package gosdk

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/limits/quota"
	"github.com/rondo-mcp/rondo/protocol"
)

// A shadow is a session that a handler sees in place of the client's: of the same client,
// in another revision, so that the SDK treats questions as that revision does. No peer is
// connected to it. The sending middleware answers the questions that are sent over it,
// and forwards all else to the client's session.

// connectShadow connects a shadow for one run of a handler.
func (a *Adapter) connectShadow(run *handlerRun,
	version protocol.Version) (*mcp.ServerSession, error) {
	call := run.call
	caps := call.client.ClientCapabilities()
	if caps == nil {
		caps = &mcp.ClientCapabilities{}
	}
	if a.opts.UnmodifiedHandlers && a.opts.MustAsk {
		all := *caps // else the SDK refuses questions before the middleware sees them
		all.Elicitation = &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{},
			URL: &mcp.URLElicitationCapabilities{}}
		caps = &all
	}
	n := &newShadow{}
	n.initialize.ProtocolVersion, n.initialize.Capabilities = string(version), caps
	n.initialize.ClientInfo = call.client.ClientInfo()
	n.state.InitializeParams, n.state.InitializedParams = &n.initialize, &n.initialized
	n.state.NegotiatedProtocolVersion = string(version)
	n.state.LogLevel = "debug" // the client's session, which gets the messages, filters
	n.options.State = &n.state
	id := call.session.ID()
	if id == "" && call.Version.Era() == protocol.Modern { // else it would look like one tenant
		id = quota.SessionName(a.sessionIDKey, call.Principal)
	}
	n.connection = shadowConnection{id: id, closed: make(chan struct{}),
		replies: make(chan jsonrpc.Message, 1)}
	session, err := call.server.Connect(context.WithoutCancel(run.ctx),
		shadowTransport{&n.connection}, &n.options)
	if err != nil {
		return nil, err
	}
	a.shadows.Store(session, run)
	return session, nil
}

// closeShadow closes a shadow. Whatever a goroutine sends over it after the call fails.
func (a *Adapter) closeShadow(session *mcp.ServerSession) {
	a.shadows.Delete(session)
	_ = session.Close()
}

// forwardMessage sends a message that is no question over the client's session. List
// changes are dropped: the server sends those to each session, the client's included.
func (run *handlerRun) forwardMessage(ctx context.Context, method string, req mcp.Request,
	next mcp.MethodHandler) (mcp.Result, error) {
	switch method {
	case protocol.NotifyToolsChanged, protocol.NotifyPromptsChanged,
		protocol.NotifyResourcesChanged, protocol.NotifyResourceUpdated:
		return nil, nil
	}
	real := run.call.session
	if params, ok := req.GetParams().(*mcp.LoggingMessageParams); ok {
		return nil, real.Log(ctx, params)
	}
	return next(ctx, method, &mcp.ServerRequest[mcp.Params]{Session: real, Params: req.GetParams()})
}

// newShadow is what the SDK is given to connect a shadow, in one allocation: one is
// connected in every call that may ask.
type newShadow struct {
	initialize  mcp.InitializeParams
	initialized mcp.InitializedParams
	state       mcp.ServerSessionState
	options     mcp.ServerSessionOptions
	connection  shadowConnection
}

// shadowTransport is the transport of a shadow.
type shadowTransport struct{ connection *shadowConnection }

// Connect returns the connection.
func (t shadowTransport) Connect(context.Context) (mcp.Connection, error) {
	return t.connection, nil
}

// shadowConnection is the connection of a shadow. It answers every request with method
// not found: without an answer a sender whose context does not end would block for ever.
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

// Write answers requests, and drops everything else.
func (n *shadowConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	req, ok := m.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return nil
	}
	reply := &jsonrpc.Response{ID: req.ID,
		Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "nobody is there"}}
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
