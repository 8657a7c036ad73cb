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
	// isEmpty reports whether r is no result at all.
	isEmpty(r R) bool
	// readAsks returns what a handler's result asks for, nil when it is complete.
	readAsks(ctx context.Context, r R) (*protocol.InputRequiredResult, error)
	// readComplete returns what stands for a complete result in the funnel, all
	// of it if whole, and the result as it may leave.
	readComplete(r R, whole bool) (protocol.Result, R, error)
	// encodeResult returns a result that the funnel made or recorded.
	encodeResult(result protocol.Result) (R, error)
	// encodeAsks returns the result that asks, in mcp-go's types. It reports
	// false where handlers cannot return one.
	encodeAsks(asks *protocol.InputRequiredResult) (R, bool, error)
}

// nextHandler is one run of a handler, with the answers where mcp-go has them.
type nextHandler[R any] func(ctx context.Context, again mcp.MultiRoundTripParams) (R, error)

// handlerOutcome is what the handler said the last time it ran.
type handlerOutcome[R any] struct {
	result      R
	err         error
	placeholder protocol.Result // nil unless the result is complete
}

// serveRequest takes one request through the funnel.
func serveRequest[R any, F family[R]](a *Adapter, ctx context.Context, in hostRequest, kind F, next nextHandler[R]) (R, error) {
	var none R
	call, err := a.newCall(ctx, in)
	if err != nil {
		return none, a.encodeError(ctx, protocol.Errorf(protocol.CodeInvalidParams, "%s", err), nil)
	}
	where := roundtrip.Where{Version: call.Version, Method: call.Method, Target: call.Target}
	defer a.followProgress(ctx, &call, in.progressToken)()
	var last handlerOutcome[R]
	result, err := a.funnel.Do(ctx, call, func(ctx context.Context) (protocol.Result, error) {
		last = handlerOutcome[R]{}
		if a.opts.UnmodifiedHandlers {
			ctx = a.withClientShadow(ctx, call)
		}
		last.result, last.err = next(ctx, restoreReturned(ctx))
		result, err := readOutcome(ctx, a, kind, &last)
		if err != nil && errors.As(err, new(*handlerMistake)) {
			a.reportEvent(ctx, roundtrip.ServerBug{Where: where, Err: err})
			err = protocol.Errorf(protocol.CodeInternalError, "internal error")
		}
		return result, err
	})
	if err != nil {
		return none, a.encodeError(ctx, err, last.err)
	}
	if asks, ok := result.(*protocol.InputRequiredResult); ok {
		return askClient(a, ctx, in, kind, asks)
	}
	if last.placeholder != nil && result == last.placeholder {
		return last.result, nil
	}
	if refused, ok := result.(*protocol.CallToolResult); ok && isOwnFailure(refused, last.err) {
		return none, last.err
	}
	restored, err := kind.encodeResult(result)
	if err != nil {
		a.reportEvent(ctx, roundtrip.ServerBug{Where: where, Err: err})
		return none, a.encodeError(ctx, protocol.Errorf(protocol.CodeInternalError, "internal error"), nil)
	}
	return restored, nil
}

// readOutcome says in the funnel's terms what the handler said in mcp-go's.
func readOutcome[R any, F family[R]](ctx context.Context, a *Adapter, kind F, last *handlerOutcome[R]) (protocol.Result, error) {
	if last.err != nil {
		if asks, ok := errors.AsType[*askingError](last.err); ok {
			return asks.result, nil
		}
		return nil, decodeError(last.err)
	}
	if kind.isEmpty(last.result) {
		return nil, &handlerMistake{errors.New("the handler returned neither a result nor an error")}
	}
	asks, err := kind.readAsks(ctx, last.result)
	if err != nil {
		return nil, &handlerMistake{err}
	}
	if asks != nil {
		return asks, nil
	}
	standIn, result, err := kind.readComplete(last.result, a.opts.Guard != nil)
	if err != nil {
		return nil, &handlerMistake{err}
	}
	last.placeholder, last.result = standIn, result
	return standIn, nil
}

// A handlerMistake of a handler is told to the observer, not to the client.
type handlerMistake struct{ err error }

func (m *handlerMistake) Error() string { return m.err.Error() }
func (m *handlerMistake) Unwrap() error { return m.err }

// isOwnFailure reports whether a refused tool result is the handler's own error.
// The funnel makes a result of it, which the model can read; mcp-go makes a
// JSON-RPC error of it, and an existing server keeps what it has.
func isOwnFailure(result *protocol.CallToolResult, err error) bool {
	if err == nil || !result.IsError || len(result.Content) != 1 || isRoundError(err) {
		return false
	}
	text, ok := result.Content[0].(*protocol.TextContent)
	return ok && text.Text == err.Error()
}

// askClient returns what asks the client: mcp-go's own result where handlers
// can return one, and in its place what this connection is known to carry.
func askClient[R any, F family[R]](a *Adapter, ctx context.Context, in hostRequest, kind F, asks *protocol.InputRequiredResult) (R, error) {
	var none R
	if in.isTask {
		return none, a.encodeError(ctx, protocol.Errorf(protocol.CodeCannotAsk, "a task cannot ask"), nil)
	}
	rw := rewriterFrom(ctx)
	exact, err := encodeExact(in.method, asks)
	if err != nil {
		return none, err
	}
	result, possible, err := kind.encodeAsks(asks)
	switch {
	case err != nil:
		return none, fmt.Errorf("mcpgo: %w", err)
	case possible:
		if state, _ := asks.RequestState.Text(); rw != nil && state != "" {
			rw.expectMarker(state, replacement{result: exact})
		}
		return result, nil
	case rw != nil:
		marker := newMarker()
		rw.expectMarker(marker, replacement{result: exact})
		return none, &markedError{text: "input required", marker: marker}
	}
	return none, errCannotCarry
}

// errCannotCarry is what a client gets where a resource needs to ask and nothing
// can carry the question.
var errCannotCarry = errors.New("this resource asks questions, which needs the server's Handler or Listen of package mcpgo")

func (a *Adapter) reportEvent(ctx context.Context, event roundtrip.Event) {
	if a.opts.Observer != nil {
		a.opts.Observer.Observe(ctx, event)
	}
}
