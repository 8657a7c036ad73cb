// Package zaplog writes the log entries of servers and routers with zap.
//
//	log := middleware.NewLog(zaplog.New(logger), nil)
package zaplog

import (
	"context"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// New returns a sink that writes to logger; nil is silent. Entries have neither caller nor stack,
// which would be these packages'; the stack of a panic is a field.
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

func (s *sink) Enabled(_ context.Context, level event.Level) bool {
	return s.logger.Core().Enabled(zapcore.Level(level)) // zap's numbers are the same
}

func (s *sink) Write(_ context.Context, level event.Level, name string, entry event.Entry) {
	if checked := s.logger.Check(zapcore.Level(level), name); checked != nil {
		r := &record{sink: s, entry: entry}
		r.field[0] = zap.Inline(r)
		checked.Write(r.field[:]...)
	}
}

// A record is an entry as one field that writes its members itself: a dozen zap fields would take a
// kilobyte. The field lies in the record, so that both are one allocation.
type record struct {
	sink  *sink
	entry event.Entry
	field [1]zap.Field // the record itself
}

// MarshalLogObject may be called again later and concurrently.
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

func (e *encoder) AppendItem(value string) { e.items = append(e.items, value) }

func (e *encoder) AddItems(name string) {
	_ = e.AddArray(name, e) // MarshalLogArray has no error
	clear(e.items)
	e.items = e.items[:0]
}

func (e *encoder) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, item := range e.items {
		out.AppendString(item)
	}
	return nil
}
