package callctx

// This file carries the reasons of internal errors to a test that runs the server in its own
// process. A client is told nothing but "internal error", and an observer has to be configured
// where the server is made; the context of a request passes through both.

import "context"

type contextKey struct{}

// With returns a context whose requests report their internal errors to report, which may be
// called concurrently.
func With(ctx context.Context, report func(error)) context.Context {
	return context.WithValue(ctx, contextKey{}, report)
}

// Report passes err to the function of [With], if ctx has one.
func Report(ctx context.Context, err error) {
	if report, ok := ctx.Value(contextKey{}).(func(error)); ok {
		report(err)
	}
}
