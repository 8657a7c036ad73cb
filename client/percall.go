package client

import (
	"context"

	"github.com/rondo-mcp/rondo/protocol"
)

// The keys of what a context says about the calls made with it.
type (
	progressKey struct{}
	refreshKey  struct{}
)

// WithProgress returns a context whose calls ask for progress and report it to
// f, in the place of [Options.Progress]. A call reports its rounds one after
// the other, and within a round progress only increases. A nil f asks for
// none.
func WithProgress(ctx context.Context, f func(context.Context, *protocol.Progress)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// WithRefresh returns a context whose calls are never answered from the cache.
// What the server answers replaces what the cache holds.
func WithRefresh(ctx context.Context) context.Context {
	return context.WithValue(ctx, refreshKey{}, true)
}

// progress returns who is told of the progress of a call, nil for nobody.
func (c *Client) progressHandler(ctx context.Context) func(context.Context, *protocol.Progress) {
	if f, ok := ctx.Value(progressKey{}).(func(context.Context, *protocol.Progress)); ok {
		return f
	}
	return c.opts.Progress
}

// refreshes reports whether a call is not to be answered from the cache.
func bypassesCache(ctx context.Context) bool { return ctx.Value(refreshKey{}) != nil }
