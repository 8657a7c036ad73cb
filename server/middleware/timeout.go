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

// defaultTimeout is how long a leg may take where nothing else is set. Clients commonly give up
// after a minute, and the work of a leg that nobody waits for is wasted.
const defaultTimeout = 60 * time.Second

// errTimedOut is the cause with which [Timeout] ends contexts.
var errTimedOut = fmt.Errorf("middleware: the time limit of the server is over: %w",
	context.DeadlineExceeded)

// Timeout returns a middleware that ends the context of a request that has run
// for limit, 0: a minute. A negative limit is none.
//
// The limit is for work. The clock stands still while the call waits for a person, see
// [roundtrip.WatchWaiting], and goes on with what was left; in modern revisions that time lies
// between legs and does not count anyway. subscriptions/listen, which is meant to stay open, has no
// limit. The package comment of roundtrip lists the clocks that may run out on a person.
//
// The context has no Deadline of the middleware's: when it will end is not known as long as
// somebody may still be asked, and package context takes a deadline that was seen once for final.
// When the limit is over its Err is [context.DeadlineExceeded]; contexts derived from it are
// [context.Canceled] and have an error as [context.Cause] that matches context.DeadlineExceeded.
//
// The handler runs on the goroutine of the request, and the answer waits for
// it to return. A handler that ignores its context therefore outlasts the
// limit; answering without it would leave it running where no limit counts it.
//
// What a handler returns after the limit is not thrown away: it may tell of work that was done. A
// result stands. A tool's error result stays one, with "timed out after 30s" put before its text. A
// plain error of a prompt or resource becomes [protocol.CodeTimeout] with that text as data, and so
// does a context's error of any other method. All other errors stand.
//
// Place it innermost, below [Limit], so that a slot is taken for as long as
// the handler really runs.
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

// A workClock is the context of a request whose clock stops while the call waits for a person.
type workClock struct {
	waiting.Limit
	people waiting.Clock
	watch  waiting.LazyWatch
}

// Value implements context.Context. The people are those that the watch tells of, and not those
// whom a client asks that the handler uses, so the clock is not that of [waiting.Pause].
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

// timeoutError returns the error that replaces err, nil when the time limit does not explain err.
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
	case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, errTimedOut):
		return nil
	}
	return protocol.Errorf(protocol.CodeTimeout, "%s", text).WithData(data)
}

// noteTimeout marks the leg for [Log] and [Metrics], which cannot tell it from a tool error.
func noteTimeout(ctx context.Context) {
	if l := legFrom(ctx); l != nil {
		l.timedOut.Store(true)
	}
}
