package mcpgo

import (
	"context"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/internal/limits/humantime"
	"github.com/rondo-mcp/rondo/internal/wire/callctx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A family is what differs between tools, prompts and resources. R is the type that their
// handlers return besides an error.
type family[R any] interface {
	// isEmpty reports whether a handler returned no result.
	isEmpty(r R) bool
	// readAsks returns the questions in a handler's result, nil when it is complete.
	readAsks(ctx context.Context, r R) (*protocol.InputRequiredResult, error)
	// readComplete returns the placeholder of a complete result in the funnel, which has
	// its content if whole, and the result to be sent.
	readComplete(r R, whole bool) (protocol.Result, R, error)
	// encodeResult converts a result that the funnel made or a guard recorded.
	encodeResult(result protocol.Result) (R, error)
	// encodeAsks converts a result with questions. It reports false where mcp-go's type
	// cannot hold one.
	encodeAsks(asks *protocol.InputRequiredResult) (R, bool, error)
}

// nextHandler runs the handler once, with the given answers in mcp-go's request.
type nextHandler[R any] func(ctx context.Context, again mcp.MultiRoundTripParams) (R, error)

// handlerOutcome is what the last run of the handler returned.
type handlerOutcome[R any] struct {
	result      R
	err         error
	placeholder protocol.Result // nil unless the result is complete
}

// serveRequest serves one request through the funnel.
func serveRequest[R any, F family[R]](a *Adapter, ctx context.Context, in hostRequest, kind F,
	next nextHandler[R]) (R, error) {
	var none R
	if err := a.checkInstallation(ctx, in.header); err != nil {
		a.reportEvent(ctx, event.ServerBug{
			Where: event.Where{Method: in.method, Target: in.target}, Err: err})
		return none, err
	}
	call, err := a.newCall(ctx, in)
	if err != nil {
		return none, a.encodeError(ctx, protocol.Errorf(protocol.CodeInvalidParams, "%s", err), nil)
	}
	if _, ok := server.ClientSessionFromContext(ctx).(*server.InProcessSession); ok {
		ctx = humantime.WithoutWire(ctx)
	}
	ctx = context.WithValue(ctx, servingKey{}, serving{a, server.ServerFromContext(ctx)})
	where := event.Where{Version: call.Version, Method: call.Method, Target: call.Target}
	defer a.followProgress(ctx, &call, progressToken(in.meta))()
	if p, ok := call.Push.(*pusher); ok {
		defer p.over.Store(true)
	}
	var last handlerOutcome[R]
	named := a.withNamedSession(ctx, &call)
	result, err := a.funnel.Do(named, call, func(ctx context.Context) (protocol.Result, error) {
		last = handlerOutcome[R]{}
		if p, ok := call.Push.(*pusher); a.opts.UnmodifiedHandlers || ok && p.takesJSONAlone() {
			ctx = a.withClientShadow(ctx, call)
		}
		last.result, last.err = next(ctx, restoreReturned(ctx))
		result, err := readOutcome(ctx, a, kind, &last)
		if err != nil && errors.As(err, new(*handlerMistake)) {
			a.reportEvent(ctx, event.ServerBug{Where: where, Err: err})
			err = protocol.Errorf(protocol.CodeInternalError, "internal error")
		}
		return result, err
	})
	a.flushNotifications(ctx)
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
		a.reportEvent(ctx, event.ServerBug{Where: where, Err: err})
		return none, a.encodeError(ctx,
			protocol.Errorf(protocol.CodeInternalError, "internal error"), nil)
	}
	return restored, nil
}

// readOutcome converts for the funnel the handler's result. For a complete result it
// sets the placeholder.
func readOutcome[R any, F family[R]](ctx context.Context, a *Adapter, kind F,
	last *handlerOutcome[R]) (protocol.Result, error) {
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

// A handlerMistake is reported to the observer; the client gets an internal error.
type handlerMistake struct{ err error }

func (m *handlerMistake) Error() string { return m.err.Error() }
func (m *handlerMistake) Unwrap() error { return m.err }

// isOwnFailure reports whether the funnel made result of the handler's own error. mcp-go
// makes a JSON-RPC error of it, and existing servers keep that.
func isOwnFailure(result *protocol.CallToolResult, err error) bool {
	if err == nil || !result.IsError || len(result.Content) != 1 || isRoundError(err) {
		return false
	}
	text, ok := result.Content[0].(*protocol.TextContent)
	return ok && text.Text == err.Error()
}

// askClient returns the questions to mcp-go: in its own result where the type can hold
// them, else as an error. Where the request has a rewriter, that replaces either with the
// exact result.
func askClient[R any, F family[R]](a *Adapter, ctx context.Context, in hostRequest, kind F,
	asks *protocol.InputRequiredResult) (R, error) {
	var none R
	if in.isTask {
		return none, a.encodeError(ctx,
			protocol.Errorf(protocol.CodeCannotAsk, "a task cannot ask"), nil)
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

// errCannotCarry is returned where a resource asks, and no rewriter can send the question.
var errCannotCarry = errors.New("this resource asks questions, which needs the server's Handler " +
	"or Listen of package mcpgo")

// reportEvent reports what the funnel does not see, to the observer and to a test of this process.
func (a *Adapter) reportEvent(ctx context.Context, e event.Event) {
	switch e := e.(type) {
	case event.ServerBug:
		callctx.Report(ctx, e.Err)
	case event.HandlerPanicked:
		callctx.Report(ctx, fmt.Errorf("the handler panicked: %v", e.Value))
	}
	a.opts.Observer.Observe(ctx, e)
}
