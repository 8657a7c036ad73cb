package client

import (
	"context"
	"fmt"

	"github.com/rondo-mcp/rondo/protocol"
)

// CallTool calls a tool and answers the questions it asks (server/tools). Args
// is a struct, a map or JSON text that encodes as an object, nil for none. The
// result of a tool that failed has IsError set: that is no Go error, which
// means that there is no result.
//
// An error of the server is a [*protocol.Error]. Other errors are
// [*TransportError], [*ResponseError], [*QuestionError], [*AnswerError],
// [ErrClosed], a [context.DeadlineExceeded] after [Options.Timeout], and one
// that names [Options.MaxRounds].
func (c *Client) CallTool(
	ctx context.Context, name string, args any,
) (*protocol.CallToolResult, error) {
	data, err := objectOf(args)
	if err != nil {
		return nil, errPrefix.Errorf("tool %.64q: arguments: %w", name, err)
	}
	return c.CallToolParams(ctx, &protocol.CallToolParams{Name: name, Arguments: data})
}

// CallToolParams is [Client.CallTool] with everything that a call may carry.
// It changes nothing in p, which may serve several calls at once.
//
// A progress token is sent as it is with every round of the call: the rounds
// follow one another, so it stays unique among running requests. Answers and
// state in p go out with the first request only; later ones carry those of
// their own round. Version, ClientInfo and Capabilities are always the
// client's own.
func (c *Client) CallToolParams(
	ctx context.Context, p *protocol.CallToolParams,
) (*protocol.CallToolResult, error) {
	return completeCall[*protocol.CallToolResult](
		ctx, c, leg{method: protocol.MethodCallTool, target: p.Name, params: p},
	)
}

// GetPrompt fills in a prompt and answers the questions on the way
// (server/prompts). Nil arguments are left out. Errors are those of
// [Client.CallTool].
func (c *Client) GetPrompt(
	ctx context.Context, name string, args map[string]string,
) (*protocol.GetPromptResult, error) {
	data, err := objectOf(args)
	if err != nil {
		return nil, errPrefix.Errorf("prompt %.64q: arguments: %w", name, err)
	}
	return c.GetPromptParams(ctx, &protocol.GetPromptParams{Name: name, Arguments: data})
}

// GetPromptParams is to [Client.GetPrompt] what [Client.CallToolParams] is to
// [Client.CallTool].
func (c *Client) GetPromptParams(
	ctx context.Context, p *protocol.GetPromptParams,
) (*protocol.GetPromptResult, error) {
	return completeCall[*protocol.GetPromptResult](
		ctx, c, leg{method: protocol.MethodGetPrompt, target: p.Name, params: p},
	)
}

// ReadResource reads a resource and answers the questions on the way
// (server/resources). Errors are those of [Client.CallTool].
func (c *Client) ReadResource(
	ctx context.Context, uri string,
) (*protocol.ReadResourceResult, error) {
	return c.ReadResourceParams(ctx, &protocol.ReadResourceParams{URI: uri})
}

// ReadResourceParams is to [Client.ReadResource] what [Client.CallToolParams]
// is to [Client.CallTool].
func (c *Client) ReadResourceParams(
	ctx context.Context, p *protocol.ReadResourceParams,
) (*protocol.ReadResourceResult, error) {
	return completeCall[*protocol.ReadResourceResult](
		ctx, c, leg{method: protocol.MethodReadResource, target: p.URI, params: p},
	)
}

// completeCall sends a call until it is complete and returns its result.
func completeCall[R protocol.Result](ctx context.Context, c *Client, l leg) (R, error) {
	var none R
	result, err := c.driveCall(ctx, l)
	if err != nil {
		return none, err
	}
	if handle, task := result.(*protocol.CreateTaskResult); task {
		ctx, done := c.beginCall(ctx)
		defer done()
		if result, err = c.driveTask(ctx, l.target, handle); err != nil {
			return none, preferClosed(ctx, err)
		}
	}
	r, ok := result.(R)
	if !ok {
		return none, &ResponseError{l.method, fmt.Errorf("unexpected result %T", result)}
	}
	return r, nil
}

// progressKey is the key of the context value of [WithProgress].
type progressKey struct{}

// WithProgress returns a context whose calls ask for progress and report it to
// f, in the place of [Options.Progress]. A call reports its rounds one after
// the other, and within a round progress only increases. A nil f asks for
// none.
func WithProgress(
	ctx context.Context, f func(context.Context, *protocol.Progress),
) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// progressHandler returns the function that receives the progress of a call,
// nil if none is wanted.
func (c *Client) progressHandler(ctx context.Context) func(context.Context, *protocol.Progress) {
	if f, ok := ctx.Value(progressKey{}).(func(context.Context, *protocol.Progress)); ok {
		return f
	}
	return c.opts.Progress
}
