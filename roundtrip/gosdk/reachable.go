package gosdk

import (
	"context"

	"github.com/rondo-mcp/rondo/internal/wire/accepthttp"
)

// Of a call over HTTP whose client takes JSON alone nothing but the response reaches the
// client. In a session its questions go to the open GET stream.

// unreachableText returns why no question of the call can go out now, empty where one can.
func (c *call) unreachableText() string {
	if _, pushes := c.Push.(pusher); !pushes || !c.takesJSONAlone {
		return ""
	}
	return c.adapter.endpoint.CannotAsk(c.request.GetExtra().Header, c.session.ID())
}

// CannotPush is asked by the funnel before a question: why none can go out now.
func (p pusher) CannotPush() string { return p.call.unreachableText() }

// sendingContext returns the context for what the SDK is to send before the response of the
// call: without the values by which the SDK would find the stream of the response, if that
// carries nothing else. The SDK then uses the GET stream.
func (c *call) sendingContext(ctx context.Context) context.Context {
	if !c.takesJSONAlone {
		return ctx
	}
	return accepthttp.WithoutStream(ctx)
}
