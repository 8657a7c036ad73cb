package client

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// CallTool calls a tool and answers its questions (server/tools). args, a struct, map or JSON text,
// encodes as an object; nil sends none. A failure of the tool itself is a result with IsError set.
//
// Errors are [*protocol.Error] (from the server), [*TransportError], [*ResponseError],
// [*QuestionError], [*AnswerError], [ErrClosed], [context.DeadlineExceeded] after
// [Options.Timeout], and an error that names [Options.MaxRounds].
func (c *Client) CallTool(ctx context.Context, name string,
	args any) (*protocol.CallToolResult, error) {
	data, err := objectOf(args)
	if err != nil {
		return nil, errPrefix.Errorf("tool %.64q: arguments: %w", name, err)
	}
	return c.CallToolParams(ctx, &protocol.CallToolParams{Name: name, Arguments: data})
}

// CallToolParams is [Client.CallTool] with all parameters of a call. It does not change p, which
// concurrent calls may share. A progress token is sent unchanged in every round: rounds do not
// overlap, so it stays unique among running requests. Answers and state in p are sent with the
// first request only. Version, ClientInfo and Capabilities are always the client's own.
func (c *Client) CallToolParams(ctx context.Context,
	p *protocol.CallToolParams) (*protocol.CallToolResult, error) {
	return completeCall[*protocol.CallToolResult](ctx, c,
		leg{method: protocol.MethodCallTool, target: p.Name, params: p})
}

// GetPrompt renders a prompt and answers its questions (server/prompts). args may be nil. Errors
// are as in [Client.CallTool].
func (c *Client) GetPrompt(ctx context.Context, name string,
	args map[string]string) (*protocol.GetPromptResult, error) {
	data, err := objectOf(args)
	if err != nil {
		return nil, errPrefix.Errorf("prompt %.64q: arguments: %w", name, err)
	}
	return c.GetPromptParams(ctx, &protocol.GetPromptParams{Name: name, Arguments: data})
}

// GetPromptParams is [Client.GetPrompt] with all parameters, see [Client.CallToolParams].
func (c *Client) GetPromptParams(ctx context.Context,
	p *protocol.GetPromptParams) (*protocol.GetPromptResult, error) {
	return completeCall[*protocol.GetPromptResult](ctx, c,
		leg{method: protocol.MethodGetPrompt, target: p.Name, params: p})
}

// ReadResource reads a resource, answering questions (server/resources). Errors: [Client.CallTool].
func (c *Client) ReadResource(ctx context.Context,
	uri string) (*protocol.ReadResourceResult, error) {
	return c.ReadResourceParams(ctx, &protocol.ReadResourceParams{URI: uri})
}

// ReadResourceParams is [Client.ReadResource] with all parameters, see [Client.CallToolParams].
func (c *Client) ReadResourceParams(ctx context.Context,
	p *protocol.ReadResourceParams) (*protocol.ReadResourceResult, error) {
	return completeCall[*protocol.ReadResourceResult](ctx, c,
		leg{method: protocol.MethodReadResource, target: p.URI, params: p})
}

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

// CallExtension sends a request defined by an extension, to a server of revision 2026-07-28. p may
// be nil and is not changed. If target is not empty, the header Mcp-Name repeats it. Extensions
// that must be declared belong in [Options.Extensions]. Errors are as in [Client.CallTool].
func (c *Client) CallExtension(ctx context.Context, method, target string,
	p *protocol.ExtensionParams) (*protocol.ExtensionResult, error) {
	if p == nil {
		p = &protocol.ExtensionParams{}
	}
	return completeCall[*protocol.ExtensionResult](ctx, c,
		leg{method: method, target: target, params: p})
}

type progressKey struct{}

// WithProgress returns a context whose calls request progress, under the caller's token or one of
// the client's, and report it to f with the context of the call. Within a round progress only
// increases; the rounds of a call do not overlap.
func WithProgress(ctx context.Context, f func(context.Context,
	*protocol.Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

func progressHandler(ctx context.Context) func(context.Context, *protocol.Progress) {
	f, _ := ctx.Value(progressKey{}).(func(context.Context, *protocol.Progress))
	return f
}
