package gosdk

import (
	"context"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/upstream"
)

type callKey struct{}

// WithCall returns a context for the requests that serve call upstream. [HTTPClient] and the
// clients of this package find the call in it, and so know whose questions come on the
// response to such a request. Do not connect with it: a connection that calls share would
// belong to the first.
func WithCall(ctx context.Context, call *elicitation.Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallFromContext returns the call of [WithCall], nil if there is none. The transport below an
// [HTTPClient] may use it to add to a request what the upstream is to know of the caller.
func CallFromContext(ctx context.Context) *elicitation.Call {
	call, _ := ctx.Value(callKey{}).(*elicitation.Call)
	return call
}

// UpstreamContext returns a context for requests upstream: it ends when that of the client's
// request ends, and has none of its values. The context of a handler of the SDK holds the
// revision of the client, which the SDK would use upstream, too: a connection that is opened
// with it while a client of revision 2026-07-28 is served does not get past initialize.
func UpstreamContext(ctx context.Context) context.Context { return upstream.NewContext(ctx) }
