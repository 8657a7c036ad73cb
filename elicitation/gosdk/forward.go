package gosdk

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// CallTool calls a tool of the upstream, by the name that it has there, for a request of a client,
// and returns the result, with the URIs under which resources are published, or the upstream's own
// error. ctx must be that of the SDK's handler. Where there is no
// connection, or it breaks, clients read only that; the error wraps the cause.
func (u *Upstream) CallTool(ctx context.Context, req *mcp.CallToolRequest,
	tool string) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: tool}
	if arguments := req.Params.Arguments; len(arguments) > 0 && string(arguments) != "null" {
		params.Arguments = arguments
	}
	result, err := forward(ctx, u, &forwardedRequest[mcp.CallToolResult]{
		clientRequest: req, params: params,
		send: func(ctx context.Context, on *mcp.ClientSession) (*mcp.CallToolResult, error) {
			return on.CallTool(ctx, params)
		},
	})
	if err == nil {
		u.publishContent(result.Content...)
	}
	return result, err
}

// GetPrompt gets a prompt of the upstream for a request of a client. It does for prompts what
// [Upstream.CallTool] does for tools.
func (u *Upstream) GetPrompt(ctx context.Context, req *mcp.GetPromptRequest,
	prompt string) (*mcp.GetPromptResult, error) {
	params := &mcp.GetPromptParams{Name: prompt, Arguments: req.Params.Arguments}
	result, err := forward(ctx, u, &forwardedRequest[mcp.GetPromptResult]{
		clientRequest: req, params: params,
		send: func(ctx context.Context, on *mcp.ClientSession) (*mcp.GetPromptResult, error) {
			return on.GetPrompt(ctx, params)
		},
	})
	if err == nil {
		for _, m := range result.Messages {
			u.publishContent(m.Content)
		}
	}
	return result, err
}

// ReadResource reads a resource of the upstream for a request of a client. It does for resources
// what [Upstream.CallTool] does for tools. uri is what the upstream calls it.
func (u *Upstream) ReadResource(ctx context.Context, req *mcp.ReadResourceRequest,
	uri string) (*mcp.ReadResourceResult, error) {
	params := &mcp.ReadResourceParams{URI: uri}
	result, err := forward(ctx, u, &forwardedRequest[mcp.ReadResourceResult]{
		clientRequest: req, params: params,
		send: func(ctx context.Context, on *mcp.ClientSession) (*mcp.ReadResourceResult, error) {
			return on.ReadResource(ctx, params)
		},
	})
	if err == nil {
		for _, contents := range result.Contents {
			u.publishResource(contents)
		}
	}
	return result, err
}

// A clientRequest is a request of the SDK's that has come from a client.
type clientRequest interface {
	mcp.Request
	ProtocolVersion() string
	ClientCapabilities() *mcp.ClientCapabilities
}

// A forwardedRequest is a request of a client that an upstream is to serve. Result is the type of
// the SDK's result.
type forwardedRequest[Result any] struct {
	clientRequest
	params mcp.RequestParams // of the request upstream
	// send sends params upstream and returns the result.
	send func(ctx context.Context, on *mcp.ClientSession) (*Result, error)
}

// forward has the upstream serve a request.
func forward[Result any](ctx context.Context, u *Upstream,
	req *forwardedRequest[Result]) (*Result, error) {
	result, err := upstream.RetryLost(isSessionLost, func() (*Result, error) {
		return callUpstream(ctx, u, req)
	})
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, encodeError(&protocol.Error{Code: wire.Code, Message: wire.Message,
			Data: wire.Data}) // without what the SDK has put before the message
	}
	if _, ok := protocol.AsError(err); err != nil && !ok && ctx.Err() == nil {
		err = unreachable{upstream.Unreachable{Cause: err}}
	}
	return result, err
}

// callUpstream sends a request on a connection that suits it, and returns the result.
func callUpstream[Result any](ctx context.Context, u *Upstream,
	req *forwardedRequest[Result]) (*Result, error) {
	from, ok := req.GetSession().(*mcp.ServerSession)
	if !ok || from == nil {
		return nil, errors.New("elicitation call: the request did not come to a server")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(u.conns.Context(), func() { cancel(upstream.ErrClosed) })()
	session, origin, err := u.clients.attachSession(from, req.clientRequest)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(session.ctx, func() { cancel(errSessionEnded) })()
	conn, release, err := u.conns.Acquire(ctx, upstream.ModesOf(session.UpstreamCapabilities()),
		origin.Principal)
	if err != nil {
		return nil, err
	}
	reuse := false // nor after a panic
	defer func() { release(reuse) }()
	call, err := u.clients.Begin(ctx, req.clientRequest, conn.key)
	if err != nil {
		reuse = true
		return nil, err
	}
	defer call.End()
	passed := conn.calls.Add(context.WithValue(ctx, clientKey{}, from), call)
	defer conn.calls.Remove(passed)
	if !call.Origin().ProgressToken.IsZero() {
		req.params.SetProgressToken(passed.Token)
	}
	result, err := req.send(WithCall(UpstreamContext(ctx), call), conn.session)
	if err == nil || isAnswer(err) {
		call.ConfirmUpstreamEnd()
		conn.answers.Wait(call.Origin().CallID)
	}
	if isSessionLost(err) {
		conn.lost.Store(true)
	}
	reuse = ctx.Err() == nil && (err == nil || isAnswer(err))
	return result, err
}

// isSessionLost reports whether an error means that the upstream does not know the session.
func isSessionLost(err error) bool { return errors.Is(err, mcp.ErrSessionMissing) }

// isAnswer reports whether an error is one that the upstream has answered with.
func isAnswer(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}
