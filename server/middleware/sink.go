package middleware

import (
	"context"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A LogSink writes the entries of a [Log]. Package zaplog has one that is ready-made; one for
// another logger is a conversion of levels and an [event.Encoder]. Its methods may be called by
// many goroutines at once.
type LogSink interface {
	// Enabled reports whether entries of a level are written.
	Enabled(level event.Level) bool
	// NewRecord returns an empty record for an entry, or nil if it is not to be written. A
	// record is filled in, and written once.
	NewRecord(level event.Level, name string) Record
}

// A Record is an entry on its way to a logger: a pointer to a struct that embeds [Entry].
type Record interface {
	// Write writes the entry, whose fields are those of [Entry.AddTo]. ctx is that of the
	// request, or the background context. A sink may keep the record, and encode it later.
	Write(ctx context.Context)
	entry() *Entry
}

// A MetricSink makes the series of [Metrics].
type MetricSink interface {
	// Register makes the series of a table: all, or none where it returns an error, which
	// names the series. Where the same table was registered before, it may return the series
	// of then, in which several servers are added up.
	Register(table []Series) ([]Vector, error)
}

// A Series is a metric: a counter, unless one of Gauge, Constant and Buckets is set.
type Series struct {
	Name, Help string
	// Labels are the names of its labels.
	Labels []string
	// Gauge means that the value goes up and down.
	Gauge bool
	// Constant means that the value is 1: its labels tell something.
	Constant bool
	// Buckets are the upper bounds of a histogram, increasing.
	Buckets []float64

	values [][]string // of each label, those that are known from the start
	lazy   bool       // most combinations of them never occur
}

// A Vector returns what counts under the values of the labels, in the order of Series.Labels.
// The same values lead to the same series. It may be slow, and what it returns is kept.
type Vector func(values ...string) Instrument

// An Instrument is one series. Add adds to a counter or a gauge, or is an observation of a
// histogram. Calls may overlap.
type Instrument interface{ Add(value float64) }

// discard makes series that nobody reads.
type discard struct{}

func (discard) Register(table []Series) ([]Vector, error) {
	vectors := make([]Vector, len(table))
	for i := range vectors {
		vectors[i] = func(...string) Instrument { return discard{} }
	}
	return vectors, nil
}

func (discard) Add(float64) {}
