package sdk

// This file logs what goes wrong in a funnel whose host has set no observer. It writes to
// log/slog, so that modules which have no other logger need none.

import (
	"context"
	"log/slog"

	"github.com/rondo-mcp/rondo/roundtrip/event"
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
	to := slog.Level(level) * (slog.LevelWarn - slog.LevelInfo)
	if !logger.Enabled(ctx, to) {
		return
	}
	var out attrs
	fields := event.Fields{Encoder: &out, FieldOptions: &event.FieldOptions{}}
	if where, ok := event.WhereOf(e); ok && where.Method != "" {
		fields.AddWhere(&where, false)
	}
	event.AddFields(e, fields)
	logger.LogAttrs(ctx, to, name, out.list...)
}

// attrs collects the fields of an entry.
type attrs struct {
	list  []slog.Attr
	items []string // of the list that is being collected
}

func (a *attrs) add(attr slog.Attr) { a.list = append(a.list, attr) }

// The methods of [event.Encoder].

func (a *attrs) AddString(name, value string)          { a.add(slog.String(name, value)) }
func (a *attrs) AddInt64(name string, value int64)     { a.add(slog.Int64(name, value)) }
func (a *attrs) AddFloat64(name string, value float64) { a.add(slog.Float64(name, value)) }
func (a *attrs) AddBool(name string, value bool)       { a.add(slog.Bool(name, value)) }
func (a *attrs) AppendItem(value string)               { a.items = append(a.items, value) }

func (a *attrs) AddItems(name string) {
	a.add(slog.Any(name, a.items))
	a.items = nil
}
