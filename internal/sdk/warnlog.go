package sdk

// This file logs what goes wrong in a funnel whose host has set no observer. It writes to
// log/slog, so that modules which have no other logger need none.

import (
	"context"
	"log/slog"

	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware/sloglog"
)

// Observer writes warnings and errors to the default logger of log/slog, with the names and fields
// that they have in package server/middleware. Other events are not logged, nor are the errors
// that handlers return: a client can cause those at will, and is told of them.
type Observer struct{}

var _ event.Observer = Observer{}

// Observe implements [event.Observer].
func (Observer) Observe(ctx context.Context, e event.Event) {
	switch e.(type) {
	case event.EphemeralKey, event.AnonymousState, event.StateRejected, event.DeclineIgnored,
		event.PushFailed, event.QuotaExceeded, event.ServerBug, event.HandlerPanicked:
		write(ctx, slog.Default(), e)
	}
}

func write(ctx context.Context, logger *slog.Logger, e event.Event) {
	level, name := event.EntryOf(e)
	level = max(level, event.LevelWarn)
	if sink := sloglog.New(logger); sink.Enabled(ctx, level) {
		sink.Write(ctx, level, name, event.EntryFunc(func(out event.Encoder) {
			fields := event.Fields{Encoder: out, FieldOptions: &event.FieldOptions{}}
			if where, ok := event.WhereOf(e); ok && where.Method != "" {
				fields.AddWhere(&where, false)
			}
			event.AddFields(e, fields)
		}))
	}
}
