package middleware

import (
	"context"
	"runtime/debug"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// Recover returns a middleware that turns a panic into an internal error (-32603) and reports it to
// observer, which may be nil, with [event.HandlerPanicked].
//
// Servers survive panics without it: the funnel recovers panics of tool, prompt and resource
// handlers, the server itself all others. Place it below [Log] and [Metrics], so that they see the
// panics of other handlers and middleware as the error that the client gets.
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
