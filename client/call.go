package client

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// CallTool calls a tool and answers its questions (server/tools). Args is a struct, a map or JSON
// text that encodes as an object, nil for none. If the tool itself fails, the result has IsError
// set and there is no Go error.
//
// An error of the server is a [*protocol.Error]. Other errors are [*TransportError],
// [*ResponseError], [*QuestionError], [*AnswerError], [ErrClosed], a [context.DeadlineExceeded]
// after [Options.Timeout], and one that names [Options.MaxRounds].
func (c *Client) CallTool(ctx context.Context, name string,
	args any) (*protocol.CallToolResult, error) {
	data, err := objectOf(args)
	if err != nil {
		return nil, errPrefix.Errorf("tool %.64q: arguments: %w", name, err)
	}
	return c.CallToolParams(ctx, &protocol.CallToolParams{Name: name, Arguments: data})
}

// CallToolParams is [Client.CallTool] with all parameters of a call. It does not change p, which
// concurrent calls may share.
//
// A progress token is sent unchanged with every round of the call: rounds do not overlap, so it
// stays unique among running requests. Answers and state in p are sent with the first request only.
// Version, ClientInfo and Capabilities are always the client's own.
func (c *Client) CallToolParams(ctx context.Context,
	p *protocol.CallToolParams) (*protocol.CallToolResult, error) {
	return completeCall[*protocol.CallToolResult](ctx, c,
		leg{method: protocol.MethodCallTool, target: p.Name, params: p})
}

// GetPrompt fills in a prompt and answers the questions on the way (server/prompts). Nil arguments
// are left out. Errors are those of [Client.CallTool].
func (c *Client) GetPrompt(ctx context.Context, name string,
	args map[string]string) (*protocol.GetPromptResult, error) {
	data, err := objectOf(args)
	if err != nil {
		return nil, errPrefix.Errorf("prompt %.64q: arguments: %w", name, err)
	}
	return c.GetPromptParams(ctx, &protocol.GetPromptParams{Name: name, Arguments: data})
}

// GetPromptParams is to [Client.GetPrompt] what [Client.CallToolParams] is to [Client.CallTool].
func (c *Client) GetPromptParams(ctx context.Context,
	p *protocol.GetPromptParams) (*protocol.GetPromptResult, error) {
	return completeCall[*protocol.GetPromptResult](ctx, c,
		leg{method: protocol.MethodGetPrompt, target: p.Name, params: p})
}

// ReadResource reads a resource and answers the questions on the way
// (server/resources). Errors are those of [Client.CallTool].
func (c *Client) ReadResource(ctx context.Context,
	uri string) (*protocol.ReadResourceResult, error) {
	return c.ReadResourceParams(ctx, &protocol.ReadResourceParams{URI: uri})
}

// ReadResourceParams is to [Client.ReadResource] what [Client.CallToolParams]
// is to [Client.CallTool].
func (c *Client) ReadResourceParams(ctx context.Context,
	p *protocol.ReadResourceParams) (*protocol.ReadResourceResult, error) {
	return completeCall[*protocol.ReadResourceResult](ctx, c,
		leg{method: protocol.MethodReadResource, target: p.URI, params: p})
}

// completeCall sends a call until it is complete and returns its result.
func completeCall[R protocol.Result](ctx context.Context, c *Client, l leg) (R, error) {
	var none R
	ctx, done := c.beginCall(ctx)
	defer done()
	result, err := c.driveCall(ctx, l)
	if handle, task := result.(*protocol.CreateTaskResult); task && err == nil {
		result, err = c.driveTask(ctx, l.target, handle)
	}
	if err != nil {
		return none, preferClosed(ctx, err)
	}
	r, ok := result.(R)
	if !ok {
		return none, unexpectedResult(l.method, result)
	}
	return r, nil
}

// CallExtension sends a request that an extension defines, to a server of revision 2026-07-28. p
// are its parameters, nil for none; target is the parameter that the extension repeats in the
// header Mcp-Name, empty for none. If the extension requires it, declare it in
// [Options.Extensions]. P is not changed. Errors are those of [Client.CallTool].
func (c *Client) CallExtension(ctx context.Context, method, target string,
	p *protocol.ExtensionParams) (*protocol.ExtensionResult, error) {
	if p == nil {
		p = &protocol.ExtensionParams{}
	}
	return completeCall[*protocol.ExtensionResult](ctx, c,
		leg{method: method, target: target, params: p})
}

// progressKey is the key of the context value of [WithProgress].
type progressKey struct{}

// WithProgress returns a context whose calls ask for progress, under the caller's token or one of
// the client's, and report it to f. Its context is that of the call. A call reports its rounds one
// after the other, and within a round progress only increases.
func WithProgress(ctx context.Context, f func(context.Context,
	*protocol.Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// progressHandler returns the function that receives the progress of a call, nil if none is wanted.
func progressHandler(ctx context.Context) func(context.Context, *protocol.Progress) {
	f, _ := ctx.Value(progressKey{}).(func(context.Context, *protocol.Progress))
	return f
}
