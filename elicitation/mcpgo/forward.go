package mcpgo

import (
	"context"
	"errors"
	"strings"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/upstream"
	"github.com/rondo-mcp/rondo/protocol"
)

// CallTool calls a tool of the upstream, by the name that it has there, for a request of a client,
// and returns the result, with the URIs under which resources are published, or the upstream's own
// error. ctx must be that of mcp-go's handler. Where there is no connection,
// or it breaks, clients read only that; the error wraps the cause.
func (u *Upstream) CallTool(ctx context.Context, request mcp.CallToolRequest,
	tool string) (*mcp.CallToolResult, error) {
	result, err := forward(ctx, u, func(ctx context.Context, on *client.Client,
		meta *mcp.Meta) (*mcp.CallToolResult, error) {
		var r mcp.CallToolRequest
		r.Params.Name, r.Params.Arguments, r.Params.Meta = tool, request.Params.Arguments, meta
		return on.CallTool(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	for i, block := range result.Content {
		result.Content[i] = u.publishContent(block)
	}
	return result, nil
}

// GetPrompt gets a prompt of the upstream for a request of a client. It does for prompts what
// [Upstream.CallTool] does for tools.
func (u *Upstream) GetPrompt(ctx context.Context, request mcp.GetPromptRequest,
	prompt string) (*mcp.GetPromptResult, error) {
	result, err := forward(ctx, u, func(ctx context.Context, on *client.Client,
		meta *mcp.Meta) (*mcp.GetPromptResult, error) {
		var r mcp.GetPromptRequest
		r.Params.Name, r.Params.Arguments = prompt, request.Params.Arguments
		r.Params.Meta = meta
		return on.GetPrompt(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	for i := range result.Messages {
		result.Messages[i].Content = u.publishContent(result.Messages[i].Content)
	}
	return result, nil
}

// ReadResource reads a resource of the upstream for a request of a client. It does for resources
// what [Upstream.CallTool] does for tools. uri is what the upstream calls it.
func (u *Upstream) ReadResource(ctx context.Context, request mcp.ReadResourceRequest,
	uri string) ([]mcp.ResourceContents, error) {
	result, err := forward(ctx, u, func(ctx context.Context, on *client.Client,
		meta *mcp.Meta) (*mcp.ReadResourceResult, error) {
		var r mcp.ReadResourceRequest
		r.Params.URI, r.Params.Meta = uri, meta
		return on.ReadResource(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	for i, contents := range result.Contents {
		result.Contents[i] = u.publishResource(contents)
	}
	return result.Contents, nil
}

// A forwardedRequest sends a request of a client upstream and returns the result. meta may be nil.
type forwardedRequest[Result any] func(ctx context.Context, on *client.Client,
	meta *mcp.Meta) (*Result, error)

// forward has the upstream serve a request.
func forward[Result any](ctx context.Context, u *Upstream,
	send forwardedRequest[Result]) (*Result, error) {
	result, err := upstream.RetryLost(isSessionLost, func() (*Result, error) {
		return callUpstream(ctx, u, send)
	})
	switch {
	case err == nil || wireOf(err) != nil:
		return result, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case strings.HasPrefix(err.Error(), roundTripError):
		wire, ok := protocol.AsError(err)
		if !ok {
			wire = protocol.Errorf(protocol.CodeCannotAsk,
				"The client cannot be asked what the upstream server asks")
		}
		return nil, &upstreamError{wire, err}
	}
	return nil, upstream.Unreachable{Cause: err}
}

// roundTripError begins the text of mcp-go's error for a result whose questions it cannot put.
const roundTripError = "multi round-trip: "

// callUpstream sends a request on a connection that suits it, and returns the result.
func callUpstream[Result any](ctx context.Context, u *Upstream,
	send forwardedRequest[Result]) (*Result, error) {
	session := server.ClientSessionFromContext(ctx)
	if session == nil {
		return nil, errors.New("elicitation call: the context is not that of a handler of mcp-go")
	}
	info, err := u.clients.describeClient(ctx, session)
	if err != nil {
		return nil, err
	}
	conn, release, err := u.conns.Acquire(ctx, modesOf(info), info.Principal)
	if err != nil {
		return nil, err
	}
	reuse := false // nor after a panic
	defer func() { release(reuse) }()
	call, err := u.clients.Begin(ctx, conn.key)
	if err != nil {
		reuse = true
		return nil, err
	}
	defer call.End()
	passed := conn.calls.Add(ctx, call)
	defer conn.removeCall(passed)
	var meta *mcp.Meta
	if !call.Origin().ProgressToken.IsZero() {
		meta = &mcp.Meta{ProgressToken: passed.Token}
	}
	var wire *protocol.Error
	answers := &callAnswers{}
	with := context.WithValue(WithCall(UpstreamContext(ctx), call), upstreamErrorKey{}, &wire)
	result, err := send(context.WithValue(with, answersKey{}, answers), conn.client, meta)
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
