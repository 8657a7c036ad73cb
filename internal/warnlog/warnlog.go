// Package warnlog logs what goes wrong in a funnel whose host has set no observer.
package warnlog

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// New returns an observer that writes warnings and errors to the default logger of log/slog: the
// entries of [middleware.Log], with their names and fields. Other events are not logged, nor are
// the errors that handlers return: a client can cause those at will, and is told of them.
func New() event.Observer { return observer{middleware.NewLog(zap.New(core{}), nil)} }

type observer struct{ log *middleware.Log }

// Observe implements [event.Observer].
func (o observer) Observe(ctx context.Context, e event.Event) {
	if _, ok := e.(event.HandlerFailed); ok {
		return
	}
	o.log.Observe(ctx, e)
}

// core passes entries of zap to log/slog.
type core struct{ fields []zapcore.Field }

// Enabled implements [zapcore.LevelEnabler].
func (c core) Enabled(level zapcore.Level) bool {
	return level >= zapcore.WarnLevel &&
		slog.Default().Enabled(context.Background(), slogLevel(level))
}

// With implements [zapcore.Core].
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{slices.Concat(c.fields, fields)}
}

// Check implements [zapcore.Core].
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements [zapcore.Core]. The members of an entry are in the order of their names.
func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(values)
	}
	attrs := make([]slog.Attr, 0, len(values.Fields))
	for _, name := range slices.Sorted(maps.Keys(values.Fields)) {
		attrs = append(attrs, slog.Any(name, values.Fields[name]))
	}
	slog.Default().LogAttrs(context.Background(), slogLevel(entry.Level), entry.Message, attrs...)
	return nil
}

// Sync implements [zapcore.Core].
func (core) Sync() error { return nil }

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level >= zapcore.ErrorLevel:
		return slog.LevelError
	case level >= zapcore.WarnLevel:
		return slog.LevelWarn
	case level >= zapcore.InfoLevel:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
