// Package zaplog has a log of package middleware write with zap.
package zaplog

import (
	"context"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/middleware"
)

// New returns a sink that writes to logger; nil is none. Entries have neither the caller nor the
// stack that logger may be set to add: both would be of these packages. That of a panic is a field
// of its entry.
func New(logger *zap.Logger) middleware.LogSink {
	if logger == nil {
		return nil
	}
	return &sink{logger: logger.WithOptions(zap.WithCaller(false),
		zap.AddStacktrace(zapcore.InvalidLevel))}
}

type sink struct {
	logger   *zap.Logger
	encoders sync.Pool // of *encoder
}

// Enabled implements [middleware.LogSink].
func (s *sink) Enabled(level event.Level) bool {
	return s.logger.Core().Enabled(zapcore.Level(level)) // the numbers are the same
}

// NewRecord implements [middleware.LogSink].
func (s *sink) NewRecord(level event.Level, name string) middleware.Record {
	if checked := s.logger.Check(zapcore.Level(level), name); checked != nil {
		return &record{sink: s, checked: checked}
	}
	return nil
}

// A record is an entry as one field that writes all of its members itself: a dozen fields of zap
// are a kilobyte, for each entry. The field lies in the record, so that both are one piece of
// memory.
type record struct {
	middleware.Entry
	sink    *sink
	checked *zapcore.CheckedEntry
	field   [1]zap.Field // the record itself
}

// Write implements [middleware.Record].
func (r *record) Write(context.Context) {
	checked := r.checked
	r.checked, r.field[0] = nil, zap.Inline(r) // checked is used again by others
	checked.Write(r.field[:]...)
}

// MarshalLogObject implements [zapcore.ObjectMarshaler]. A core may call it again later, and from
// several goroutines.
func (r *record) MarshalLogObject(out zapcore.ObjectEncoder) error {
	e, ok := r.sink.encoders.Get().(*encoder)
	if !ok {
		e = &encoder{}
	}
	e.ObjectEncoder = out
	r.AddTo(e)
	e.ObjectEncoder = nil
	r.sink.encoders.Put(e)
	return nil
}

// An encoder adds lists to an encoder of zap.
type encoder struct {
	zapcore.ObjectEncoder
	items []string
}

// AppendItem implements [event.Encoder].
func (e *encoder) AppendItem(value string) { e.items = append(e.items, value) }

// AddItems implements [event.Encoder].
func (e *encoder) AddItems(name string) {
	_ = e.AddArray(name, e) // MarshalLogArray has no error
	clear(e.items)
	e.items = e.items[:0]
}

// MarshalLogArray implements [zapcore.ArrayMarshaler].
func (e *encoder) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, item := range e.items {
		out.AppendString(item)
	}
	return nil
}
