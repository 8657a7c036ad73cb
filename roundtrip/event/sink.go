package event

import "context"

// A LogSink writes the log entries of a server or a router. Packages zaplog and sloglog of
// server/middleware have one each; another logger needs a conversion of levels and an [Encoder].
// Calls may overlap.
type LogSink interface {
	// Enabled reports whether entries of a level are written. ctx is that of the request, or
	// the background context.
	Enabled(ctx context.Context, level Level) bool
	// Write writes an entry of an enabled level. It may keep the entry and encode it later.
	Write(ctx context.Context, level Level, name string, entry Entry)
}

// An Entry is a log entry on its way to a [LogSink]. AddTo writes its fields to out: the same
// whenever it is called, at once or by several goroutines.
type Entry interface{ AddTo(out Encoder) }

// An EntryFunc is a function as an [Entry].
type EntryFunc func(out Encoder)

// AddTo implements [Entry].
func (f EntryFunc) AddTo(out Encoder) { f(out) }

// A MetricSink makes the series of metrics, as that of package prom of server/middleware does.
type MetricSink interface {
	// Register makes the series of a table: all, or none with an error that names the series.
	// For a table that was registered before it may return the same series, which then add up
	// several servers.
	Register(table []Series) ([]Vector, error)
}

// A Series is a metric: a counter, unless one of Gauge, Constant and Buckets is set.
type Series struct {
	Name, Help string
	Labels     []string  // the names of its labels
	Gauge      bool      // the value goes up and down
	Constant   bool      // the value is 1: the labels carry the information
	Buckets    []float64 // the upper bounds of a histogram, increasing
}

// A Vector returns the instrument for values of the labels, in the order of Series.Labels. The same
// values give the same series, which exists from then on. It may be slow: callers keep the result.
type Vector func(values ...string) Instrument

// KeepSeries makes the series of the known values of a vector with one label, so that their first
// increase shows, and returns a look-up by value. For other values it asks vector each time.
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

// An Instrument is one series. Add adds to a counter or a gauge, or is an observation of a
// histogram. Calls may overlap.
type Instrument interface{ Add(value float64) }

// RegisterSeries calls Register of a sink. Series of a nil sink are discarded.
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
