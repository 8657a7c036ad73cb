// Package taskrun marks the context of requests that a server makes to itself, to run a task.
package taskrun

import "context"

type key struct{}

// With returns a context whose requests are runs of a task.
func With(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether ctx is that of a run of a task.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }
