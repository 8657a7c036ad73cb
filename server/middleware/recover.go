package middleware

import (
	"context"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// Recover returns a middleware that turns a panic of what it wraps into an internal error (-32603)
// and tells observer with [event.HandlerPanicked]. A nil observer is not told.
//
// Servers survive panics without it: those of tool, prompt and resource handlers are recovered by
// the funnel, all others by the server itself. Place it below [Log] and [Metrics], so that these
// see a panic of other middleware or of any other handler as the error that the client gets.
func Recover(observer event.Observer) server.Middleware {
	return func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (result protocol.Result,
			err error) {
			defer func() {
				v := recover()
				if v == nil {
					return
				}
				result, err = nil, rules.InternalError()
				if observer != nil {
					observer.Observe(ctx, event.HandlerPanicked{Where: whereOfRequest(request),
						Value: v, Stack: debug.Stack()})
				}
			}()
			return next(ctx, request)
		}
	}
}
