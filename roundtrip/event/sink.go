package event

import "context"

// A LogSink writes the log entries of a server or a router. The packages zaplog and sloglog of
// server/middleware have one each; one for another logger is a conversion of levels and an
// [Encoder]. Its methods may be called by many goroutines at once.
type LogSink interface {
	// Enabled reports whether entries of a level are written. ctx is that of the request, or
	// the background context.
	Enabled(ctx context.Context, level Level) bool
	// Write writes an entry of a level that is enabled. It may keep the entry, and encode it
	// later.
	Write(ctx context.Context, level Level, name string, entry Entry)
}

// An Entry is a log entry on its way to a [LogSink]. AddTo writes its fields to out: the same
// whenever it is called, at once or by several goroutines.
type Entry interface{ AddTo(out Encoder) }

// An EntryFunc is an entry that is not kept as anything but a function.
type EntryFunc func(out Encoder)

// AddTo implements [Entry].
func (f EntryFunc) AddTo(out Encoder) { f(out) }

// A MetricSink makes the series of metrics, as that of package prom of server/middleware does.
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
}

// A Vector returns what counts under the values of the labels, in the order of Series.Labels.
// The same values lead to the same series, which is there from then on. It may be slow, and what
// it returns is kept.
type Vector func(values ...string) Instrument

// KeepSeries makes the series of known values of the one label that vector has, so that their first
// increase shows, and returns a look-up of series by value. That of other values is made whenever
// it is looked up.
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

// RegisterSeries is the Register of a sink. Series of a nil sink are read by nobody.
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
