package middleware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// DefaultTimeout is how long a leg may take where nothing else is set. Clients
// commonly give up after a minute, and the work of a leg that nobody waits for
// is wasted.
const DefaultTimeout = 60 * time.Second

// errTimedOut is the cause with which [Timeout] ends contexts.
var errTimedOut = errors.New("middleware: the time limit of the server is over")

// Timeout returns a middleware that ends the context of a request after limit.
// A limit of 0 or less means [DefaultTimeout].
//
// The limit is one leg's: the time that a person takes to answer lies between
// legs and does not count. subscriptions/listen, which is meant to stay open,
// has no limit.
//
// The handler runs on the goroutine of the request, and the answer waits for
// it to return. A handler that ignores its context therefore outlasts the
// limit; answering without it would leave it running where no limit counts it.
//
// What a handler returns after the limit is not thrown away: it may tell of
// work that was done. A result stands. A tool's error result stays one, with
// "timed out after 30s" put before its text. A plain error of a prompt or
// resource becomes [protocol.CodeTimeout] with that text as data, and so does a
// context's error of any other method. All other errors stand.
//
// Place it innermost, below [Limit], so that a slot is taken for as long as
// the handler really runs.
func Timeout(limit time.Duration) server.Middleware {
	if limit <= 0 {
		limit = DefaultTimeout
	}
	return func(next server.Handler) server.Handler {
		return func(ctx context.Context, in *server.Incoming) (protocol.Result, error) {
			if in.Request.Method == protocol.MethodListen {
				return next(ctx, in)
			}
			ctx, cancel := context.WithTimeoutCause(ctx, limit, errTimedOut)
			defer cancel()
			result, err := next(ctx, in)
			if context.Cause(ctx) != errTimedOut {
				return result, err
			}
			return timedOut(ctx, limit, result, err)
		}
	}
}

// timedOut says of a failure that it came after the limit.
func timedOut(ctx context.Context, limit time.Duration, result protocol.Result, err error) (protocol.Result, error) {
	text := fmt.Sprintf("timed out after %s", limit)
	if err != nil {
		late := timeoutError(text, limit, err)
		if late == nil {
			return result, err
		}
		noteTimeout(ctx)
		return nil, late
	}
	failed, ok := result.(*protocol.CallToolResult)
	if !ok || failed == nil || !failed.IsError {
		return result, nil
	}
	noteTimeout(ctx)
	late := *failed
	late.Content = append([]protocol.Content{&protocol.TextContent{Text: text}}, failed.Content...)
	return &late, nil
}

// timeoutError returns what the client gets instead of err, nil when err says
// something that the time limit does not explain.
func timeoutError(text string, limit time.Duration, err error) *protocol.Error {
	data := struct {
		TimeoutMs int64  `json:"timeoutMs"`
		Error     string `json:"error,omitzero"` // of the handler
	}{TimeoutMs: limit.Milliseconds()}
	switch e, ok := protocol.AsError(err); {
	case ok && e.Code == protocol.CodeHandlerError:
		data.Error = e.Message
	case ok:
		return nil
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.Is(err, errTimedOut):
		return nil
	}
	return protocol.Errorf(protocol.CodeTimeout, "%s", text).WithData(data)
}

// noteTimeout tells [Log] and [Metrics], for whom a tool's error result would
// look like any other.
func noteTimeout(ctx context.Context) {
	if l := legFrom(ctx); l != nil {
		l.setTimedOut()
	}
}
