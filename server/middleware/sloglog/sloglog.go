// Package sloglog writes the log entries of servers and routers with log/slog.
//
//	log := middleware.NewLog(sloglog.New(slog.Default()), nil)
package sloglog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// New returns a sink that writes to the handler of logger; nil is silent. The handler gets the
// request's context, and only enabled levels, named as in slog. Entries have no source.
func New(logger *slog.Logger) event.LogSink {
	if logger == nil {
		return nil
	}
	return &sink{handler: logger.Handler()}
}

type sink struct {
	handler  slog.Handler
	encoders sync.Pool // of *encoder
}

// levelOf converts a level to slog's, whose levels are four apart.
func levelOf(level event.Level) slog.Level { return slog.Level(level) * 4 }

func (s *sink) Enabled(ctx context.Context, level event.Level) bool {
	return s.handler.Enabled(ctx, levelOf(level))
}

func (s *sink) Write(ctx context.Context, level event.Level, name string, entry event.Entry) {
	e, ok := s.encoders.Get().(*encoder)
	if !ok {
		e = &encoder{}
	}
	entry.AddTo(e)
	record := slog.NewRecord(time.Now(), levelOf(level), name, 0)
	record.AddAttrs(e.attrs...) // copies them
	clear(e.attrs)
	e.attrs = e.attrs[:0]
	s.encoders.Put(e)
	_ = s.handler.Handle(ctx, record) // like slog.Logger, ignores the error
}

// An encoder collects the attributes of an entry.
type encoder struct {
	attrs []slog.Attr
	items []string // nil: none since the last AddItems
}

var _ event.Encoder = (*encoder)(nil)

func (e *encoder) add(a slog.Attr) { e.attrs = append(e.attrs, a) }

func (e *encoder) AddString(name, value string) { e.add(slog.String(name, value)) }

func (e *encoder) AddInt64(name string, value int64) { e.add(slog.Int64(name, value)) }

func (e *encoder) AddFloat64(name string, value float64) { e.add(slog.Float64(name, value)) }

func (e *encoder) AddBool(name string, value bool) { e.add(slog.Bool(name, value)) }

func (e *encoder) AppendItem(value string) { e.items = append(e.items, value) }

func (e *encoder) AddItems(name string) {
	if e.items == nil {
		e.items = []string{} // empty in JSON, not null
	}
	e.add(slog.Any(name, e.items))
	e.items = nil
}
