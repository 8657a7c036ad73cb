package event

import "context"

// A LogSink writes the log entries of a server or router, as in zaplog and sloglog of
// server/middleware. Calls may overlap.
type LogSink interface {
	// Enabled reports whether entries of a level are written. ctx may be the background context.
	Enabled(ctx context.Context, level Level) bool
	// Write writes an entry of an enabled level. It may encode the entry later.
	Write(ctx context.Context, level Level, name string, entry Entry)
}

// An Entry is a log entry. AddTo writes the same fields to out on every call. Calls may overlap.
type Entry interface{ AddTo(out Encoder) }

// An EntryFunc is a function that implements [Entry].
type EntryFunc func(out Encoder)

// AddTo implements [Entry].
func (f EntryFunc) AddTo(out Encoder) { f(out) }

// A MetricSink creates metrics' series, as package prom of server/middleware does.
type MetricSink interface {
	// Register creates all series of a table, or none and returns an error that names the bad one.
	// For a table registered before it may return the same series, so that servers add up.
	Register(table []Series) ([]Vector, error)
}

// A Series is a metric: a counter, unless one of Gauge, Constant and Buckets is set.
type Series struct {
	Name, Help string
	Labels     []string  // the names of its labels
	Gauge      bool      // the value may decrease
	Constant   bool      // the value is 1; the labels carry the information
	Buckets    []float64 // upper bounds of a histogram, increasing
}

// A Vector returns the instrument for label values, in the order of Series.Labels. Keep the result.
type Vector func(values ...string) Instrument

// KeepSeries creates the known values' series of a one-label vector, so that their first increase
// shows, and returns a look-up by value. For other values it calls vector each time.
func KeepSeries[V ~string](vector Vector, known ...V) func(value V) Instrument {
	kept := make(map[V]Instrument, len(known))
	for _, value := range known {
		kept[value] = vector(string(value))
	}
	return func(value V) Instrument {
		if instrument, ok := kept[value]; ok {
			return instrument
		}
		return vector(string(value))
	}
}

// An Instrument is one series: Add adds to a counter, gauge or histogram. Calls may overlap.
type Instrument interface{ Add(value float64) }

// RegisterSeries calls sink's Register, or discards the series if sink is nil.
func RegisterSeries(sink MetricSink, table []Series) ([]Vector, error) {
	if sink != nil {
		return sink.Register(table)
	}
	vectors := make([]Vector, len(table))
	for i := range vectors {
		vectors[i] = func(...string) Instrument { return unread{} }
	}
	return vectors, nil
}

type unread struct{}

func (unread) Add(float64) {}
