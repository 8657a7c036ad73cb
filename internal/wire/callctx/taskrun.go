package callctx

// This file marks the context of requests that a server makes to itself, to run a task.

import "context"

type taskRunKey struct{}

// WithTaskRun returns a context whose requests are runs of a task.
func WithTaskRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, taskRunKey{}, true)
}

// IsTaskRun reports whether ctx is that of a run of a task.
func IsTaskRun(ctx context.Context) bool { return ctx.Value(taskRunKey{}) != nil }
