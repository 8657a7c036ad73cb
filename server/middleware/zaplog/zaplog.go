// Package zaplog has the log entries of servers and routers written with zap.
package zaplog

import (
	"context"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// New returns a sink that writes to logger; nil is none. Entries have neither the caller nor the
// stack that logger may be set to add: both would be of these packages. That of a panic is a field
// of its entry.
func New(logger *zap.Logger) event.LogSink {
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

// Enabled implements [event.LogSink].
func (s *sink) Enabled(_ context.Context, level event.Level) bool {
	return s.logger.Core().Enabled(zapcore.Level(level)) // the numbers are the same
}

// Write implements [event.LogSink].
func (s *sink) Write(_ context.Context, level event.Level, name string, entry event.Entry) {
	if checked := s.logger.Check(zapcore.Level(level), name); checked != nil {
		r := &record{sink: s, entry: entry}
		r.field[0] = zap.Inline(r)
		checked.Write(r.field[:]...)
	}
}

// A record is an entry as one field that writes all of its members itself: a dozen fields of zap
// are a kilobyte, for each entry. The field lies in the record, so that both are one piece of
// memory.
type record struct {
	sink  *sink
	entry event.Entry
	field [1]zap.Field // the record itself
}

// MarshalLogObject implements [zapcore.ObjectMarshaler]. A core may call it again later, and from
// several goroutines.
func (r *record) MarshalLogObject(out zapcore.ObjectEncoder) error {
	e, ok := r.sink.encoders.Get().(*encoder)
	if !ok {
		e = &encoder{}
	}
	e.ObjectEncoder = out
	r.entry.AddTo(e)
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
