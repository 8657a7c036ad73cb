package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/protocol"
)

// CallTool calls a tool of the upstream for a request of a client, and returns the result, or
// the upstream's own error. ctx must be that of mcp-go's handler. Where there is no connection,
// or it breaks, clients read only that; the error wraps the cause.
//
// For a client of revision 2026-07-28 the result may be the upstream's questions, if the
// Downstream has a Bridge: see [Options].
func (u *Upstream) CallTool(ctx context.Context, request mcp.CallToolRequest,
	tool string) (*mcp.CallToolResult, error) {
	return forward(ctx, u, &forwardedRequest[mcp.CallToolResult]{
		method: protocol.MethodCallTool, target: request.Params.Name,
		arguments: request.GetRawArguments(), answers: request.Params.MultiRoundTripParams,
		header: request.Header,
		send: func(ctx context.Context, on *client.Client,
			meta *mcp.Meta) (*mcp.CallToolResult, error) {
			var r mcp.CallToolRequest
			r.Params.Name, r.Params.Arguments, r.Params.Meta = tool, request.Params.Arguments, meta
			return on.CallTool(ctx, r)
		},
		decode: func(raw json.RawMessage) (*mcp.CallToolResult, error) {
			result := &mcp.CallToolResult{}
			return result, json.Unmarshal(raw, result)
		},
	})
}

// GetPrompt gets a prompt of the upstream for a request of a client. It does for prompts what
// [Upstream.CallTool] does for tools.
func (u *Upstream) GetPrompt(ctx context.Context, request mcp.GetPromptRequest,
	prompt string) (*mcp.GetPromptResult, error) {
	var arguments any
	if request.Params.Arguments != nil {
		arguments = request.Params.Arguments
	}
	return forward(ctx, u, &forwardedRequest[mcp.GetPromptResult]{
		method: protocol.MethodGetPrompt, target: request.Params.Name, arguments: arguments,
		answers: request.Params.MultiRoundTripParams, header: request.Header,
		send: func(ctx context.Context, on *client.Client,
			meta *mcp.Meta) (*mcp.GetPromptResult, error) {
			var r mcp.GetPromptRequest
			r.Params.Name, r.Params.Arguments = prompt, request.Params.Arguments
			r.Params.Meta = meta
			return on.GetPrompt(ctx, r)
		},
		decode: func(raw json.RawMessage) (*mcp.GetPromptResult, error) {
			return mcp.ParseGetPromptResult(&raw)
		},
	})
}

// ReadResource reads a resource of the upstream for a request of a client. It does for resources
// what [Upstream.CallTool] does for tools, but for a client of revision 2026-07-28 questions are
// refused as for a client without the capability: a resource handler of mcp-go cannot return them.
// The contents have the URIs that the upstream gives them.
func (u *Upstream) ReadResource(ctx context.Context, request mcp.ReadResourceRequest,
	uri string) ([]mcp.ResourceContents, error) {
	result, err := forward(ctx, u, &forwardedRequest[mcp.ReadResourceResult]{
		send: func(ctx context.Context, on *client.Client,
			meta *mcp.Meta) (*mcp.ReadResourceResult, error) {
			var r mcp.ReadResourceRequest
			r.Params.URI, r.Params.Meta = uri, meta
			return on.ReadResource(ctx, r)
		},
	})
	if err != nil {
		return nil, err
	}
	return result.Contents, nil
}

// A forwardedRequest is a request of a client that an upstream is to serve. Result is the type of
// mcp-go's result.
type forwardedRequest[Result any] struct {
	method, target string                   // what the client wants
	arguments      any                      // its arguments, nil: none
	answers        mcp.MultiRoundTripParams // to questions
	header         http.Header              // of the client's HTTP request, nil: there is none
	// send sends the request upstream and returns the result. meta may be nil.
	send func(ctx context.Context, on *client.Client, meta *mcp.Meta) (*Result, error)
	// decode decodes the result, nil: the result cannot be questions.
	decode func(raw json.RawMessage) (*Result, error)
}

// forward has the upstream serve a request.
func forward[Result any](ctx context.Context, u *Upstream,
	req *forwardedRequest[Result]) (*Result, error) {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern &&
		u.clients.opts.Bridge != nil && req.decode != nil {
		return forwardParked(ctx, u, info, req)
	}
	result, err := retryLost(func() (*Result, error) {
		return forwardWhileConnected(ctx, u, req)
	})
	switch {
	case err == nil || wireOf(err) != nil:
		return result, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, unreachable{err}
}

// retryLost makes a call, and makes it again where the upstream does not know the session and so
// has not run it.
func retryLost[Result any](call func() (*Result, error)) (*Result, error) {
	result, err := call()
	if isSessionLost(err) {
		return call()
	}
	return result, err
}

// forwardWhileConnected serves a client whose request waits for the result.
func forwardWhileConnected[Result any](ctx context.Context, u *Upstream,
	req *forwardedRequest[Result]) (*Result, error) {
	session := server.ClientSessionFromContext(ctx)
	if session == nil {
		return nil, errors.New("elicitation call: the context is not that of a handler of mcp-go")
	}
	info, err := u.clients.describeClient(ctx, session)
	if err != nil {
		return nil, err
	}
	return callUpstream(ctx, u, req, &upstreamCall{
		modes: modesOf(info), principal: info.Principal, begin: u.clients.Begin,
	})
}

// An upstreamCall says for whom an upstream serves a request.
type upstreamCall struct {
	modes     modes
	principal protocol.Principal
	parked    bool // no client waits for messages about the call
	begin     bridge.BeginFunc
}

// callUpstream sends a request on a connection that suits it, and returns the result.
func callUpstream[Result any](ctx context.Context, u *Upstream, req *forwardedRequest[Result],
	to *upstreamCall) (*Result, error) {
	conn, release, err := u.acquire(ctx, to.modes, to.principal)
	if err != nil {
		return nil, err
	}
	reuse := false // nor after a panic
	defer func() { release(reuse) }()
	call, err := to.begin(ctx, conn.key)
	if err != nil {
		reuse = true
		return nil, err
	}
	defer call.End()
	passed := conn.addCall(ctx, call, to.parked)
	defer conn.removeCall(passed)
	var meta *mcp.Meta
	if !call.Origin().ProgressToken.IsZero() {
		meta = &mcp.Meta{ProgressToken: passed.token}
	}
	var wire *protocol.Error
	answers := &callAnswers{}
	with := context.WithValue(WithCall(UpstreamContext(ctx), call), upstreamErrorKey{}, &wire)
	result, err := req.send(context.WithValue(with, answersKey{}, answers), conn.client, meta)
	_, broken := errors.AsType[*transport.Error](err)
	if !broken {
		call.ConfirmUpstreamEnd()
		answers.book.Wait("")
	}
	if isSessionLost(err) {
		conn.ended.Store(true)
	}
	reuse = !broken && ctx.Err() == nil
	if err != nil && !broken && wire != nil {
		err = &upstreamError{wire, err}
	}
	return result, err
}
