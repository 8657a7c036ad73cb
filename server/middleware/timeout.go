package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// defaultTimeout fits clients, which commonly give up after a minute.
const defaultTimeout = 60 * time.Second

// errTimedOut is the cause with which [Timeout] ends contexts.
var errTimedOut = fmt.Errorf("middleware: the server's time limit was exceeded: %w",
	context.DeadlineExceeded)

// Timeout returns middleware to end a request's context after limit; 0: a minute, negative: never.
//
// The limit applies to work. The clock stops while the call waits for a user, see
// [roundtrip.WatchWaiting]; in modern revisions that time lies between legs and does not count
// anyway. subscriptions/listen has no limit. Package roundtrip lists the timeouts of questions.
//
// The context has no Deadline from the middleware: its end depends on waits, and package context
// takes a deadline as final. After the limit its Err is [context.DeadlineExceeded]; derived
// contexts are [context.Canceled] with a [context.Cause] that matches context.DeadlineExceeded.
//
// The handler runs on the request's goroutine, and the answer waits for it. A handler that ignores
// its context therefore exceeds the limit; otherwise it would keep running uncounted.
//
// Results after the limit are kept, because they may report completed work. A tool's error result
// gets "timed out after 30s" before its text. A plain error of a prompt or resource becomes
// [protocol.CodeTimeout] with that text as data, and so does a context error of other methods.
//
// Place it innermost, below [Limit], so that a slot is held as long as the handler runs.
func Timeout(limit time.Duration) server.Middleware {
	limit = cmp.Or(limit, defaultTimeout)
	return func(next server.Handler) server.Handler {
		if limit < 0 {
			return next
		}
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			if request.Message.Method == protocol.MethodListen || request.InTask() {
				return next(ctx, request)
			}
			c := &workClock{}
			c.Start(ctx, &c.people, limit, errTimedOut)
			defer c.Release()
			result, err := next(c, request)
			if !c.IsExceeded() {
				return result, err
			}
			return applyTimeout(ctx, limit, result, err)
		}
	}
}

// A workClock is a request's context whose clock stops while the call waits for a user.
type workClock struct {
	waiting.Limit
	people waiting.Clock
	watch  waiting.LazyWatch
}

// Value uses the watch, not [waiting.Pause], so that waits of a client in the handler do not count.
func (c *workClock) Value(key any) any {
	if key == waiting.Key() {
		return c.watch.Ensure(c.Parent(), &c.people)
	}
	return c.Context.Value(key)
}

func applyTimeout(ctx context.Context, limit time.Duration, result protocol.Result,
	err error) (protocol.Result, error) {
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

// timeoutError returns the error that replaces err, or nil if the time limit does not explain err.
func timeoutError(text string, limit time.Duration, err error) *protocol.Error {
	data := struct {
		TimeoutMs int64  `json:"timeoutMs"`
		Error     string `json:"error,omitzero"` // error of the handler
	}{TimeoutMs: limit.Milliseconds()}
	switch e, ok := protocol.AsError(err); {
	case ok && e.Code == protocol.CodeHandlerError:
		data.Error = e.Message
	case ok:
		return nil
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, errTimedOut):
		return nil
	}
	return protocol.Errorf(protocol.CodeTimeout, "%s", text).WithData(data)
}

// noteTimeout marks the leg for [Log] and [Metrics], which cannot tell a timeout from a tool error.
func noteTimeout(ctx context.Context) {
	if l := legFrom(ctx); l != nil {
		l.timedOut.Store(true)
	}
}
