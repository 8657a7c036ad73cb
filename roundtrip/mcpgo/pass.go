package mcpgo

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A family is what differs between tools, prompts and resources: R is what
// their handlers return besides an error.
type family[R any] interface {
	// empty reports whether r is no result at all.
	empty(r R) bool
	// asks returns what a handler's result asks for, nil when it is complete.
	asks(ctx context.Context, r R) (*protocol.InputRequiredResult, error)
	// complete returns what stands for a complete result in the funnel, all
	// of it if whole, and the result as it may leave.
	complete(r R, whole bool) (protocol.Result, R, error)
	// restore returns a result that the funnel made or recorded.
	restore(result protocol.Result) (R, error)
	// questions returns the result that asks, in mcp-go's types. It reports
	// false where handlers cannot return one.
	questions(asks *protocol.InputRequiredResult) (R, bool, error)
}

// run is one run of a handler, with the answers where mcp-go has them.
type run[R any] func(ctx context.Context, again mcp.MultiRoundTripParams) (R, error)

// said is what the handler said the last time it ran.
type said[R any] struct {
	result  R
	err     error
	standIn protocol.Result // nil unless the result is complete
}

// pass takes one request through the funnel.
func pass[R any, F family[R]](a *Adapter, ctx context.Context, in arrival, kind F, next run[R]) (R, error) {
	var none R
	call, err := a.call(ctx, in)
	if err != nil {
		return none, a.refusal(ctx, protocol.Errorf(protocol.CodeInvalidParams, "%s", err), nil)
	}
	where := roundtrip.Where{Version: call.Version, Method: call.Method, Target: call.Target}
	defer a.followProgress(ctx, &call, in.token)()
	var last said[R]
	result, err := a.funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
		last = said[R]{}
		if a.opts.UnmodifiedHandlers {
			ctx = a.standIn(ctx, call)
		}
		last.result, last.err = next(ctx, again(ctx))
		result, err := translate(ctx, a, kind, &last)
		if err != nil && errors.As(err, new(*mistake)) {
			a.observe(ctx, roundtrip.ServerBug{Where: where, Err: err})
			err = protocol.Errorf(protocol.CodeInternalError, "internal error")
		}
		return result, err
	})
	if err != nil {
		return none, a.refusal(ctx, err, last.err)
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok {
		return question(a, ctx, in, kind, asks)
	}
	if last.standIn != nil && result == last.standIn {
		return last.result, nil
	}
	if refused, ok := result.(*protocol.CallToolResult); ok && ownFailure(refused, last.err) {
		return none, last.err
	}
	restored, err := kind.restore(result)
	if err != nil {
		a.observe(ctx, roundtrip.ServerBug{Where: where, Err: err})
		return none, a.refusal(ctx, protocol.Errorf(protocol.CodeInternalError, "internal error"), nil)
	}
	return restored, nil
}

// translate says in the funnel's terms what the handler said in mcp-go's.
func translate[R any, F family[R]](ctx context.Context, a *Adapter, kind F, last *said[R]) (protocol.Result, error) {
	if last.err != nil {
		if asks, ok := errors.AsType[*asking](last.err); ok {
			return asks.result, nil
		}
		return nil, errorOf(last.err)
	}
	if kind.empty(last.result) {
		return nil, &mistake{errors.New("the handler returned neither a result nor an error")}
	}
	asks, err := kind.asks(ctx, last.result)
	if err != nil {
		return nil, &mistake{err}
	}
	if asks != nil {
		return asks, nil
	}
	standIn, result, err := kind.complete(last.result, a.opts.Guard != nil)
	if err != nil {
		return nil, &mistake{err}
	}
	last.standIn, last.result = standIn, result
	return standIn, nil
}

// A mistake of a handler is told to the observer, not to the client.
type mistake struct{ err error }

func (m *mistake) Error() string { return m.err.Error() }
func (m *mistake) Unwrap() error { return m.err }

// ownFailure reports whether a refused tool result is the handler's own error.
// The funnel makes a result of it, which the model can read; mcp-go makes a
// JSON-RPC error of it, and an existing server keeps what it has.
func ownFailure(result *protocol.CallToolResult, err error) bool {
	if err == nil || !result.IsError || len(result.Content) != 1 || ofRound(err) {
		return false
	}
	text, ok := result.Content[0].(*protocol.TextContent)
	return ok && text.Text == err.Error()
}

// question returns what asks the client: mcp-go's own result where handlers
// can return one, and in its place what this connection is known to carry.
func question[R any, F family[R]](a *Adapter, ctx context.Context, in arrival, kind F, asks *protocol.InputRequiredResult) (R, error) {
	var none R
	if in.task {
		return none, a.refusal(ctx, protocol.Errorf(protocol.CodeCannotAsk, "a task cannot ask"), nil)
	}
	wire := wireFrom(ctx)
	exact, err := exactResult(in.method, asks)
	if err != nil {
		return none, err
	}
	result, possible, err := kind.questions(asks)
	switch {
	case err != nil:
		return none, fmt.Errorf("mcpgo: %w", err)
	case possible:
		if state, _ := asks.RequestState.Text(); wire != nil && state != "" {
			wire.expect(state, reply{result: exact})
		}
		return result, nil
	case wire != nil:
		marker := newMarker()
		wire.expect(marker, reply{result: exact})
		return none, &marked{text: "input required", marker: marker}
	}
	return none, errNoWire
}

// errNoWire is what a client gets where a resource needs to ask and nothing
// can carry the question.
var errNoWire = errors.New("this resource asks questions, which needs the server's Handler or Listen of package mcpgo")

func (a *Adapter) observe(ctx context.Context, event roundtrip.Event) {
	if a.opts.Observer != nil {
		a.opts.Observer.Observe(ctx, event)
	}
}
