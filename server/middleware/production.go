package middleware

import (
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// ProductionOptions configure [Production]. The zero value works.
type ProductionOptions struct {
	Log     LogOptions
	Metrics MetricsOptions
	Payload PayloadOptions
	Limit   LimitOptions
	// Timeout is how long a leg may work, as in [Timeout]; 0: a minute, negative: no
	// limit.
	Timeout time.Duration
}

// Production returns all middleware of this package in the recommended order, and the observer
// that belongs to it:
//
//	observer, chain, err := middleware.Production(zaplog.New(logger),
//		prom.New(prometheus.DefaultRegisterer), nil)
//	…
//	srv, err := server.New(&server.Options{Observer: observer, Middleware: chain})
//
// A nil log is silent, and nil metrics are none. opts may be nil. The error is that of
// [NewMetrics]. Put middleware of your own before or after the chain, or between its parts, which
// are in the order of the package comment.
func Production(log event.LogSink, metrics event.MetricSink, opts *ProductionOptions) (
	event.Observer, []server.Middleware, error) {
	var o ProductionOptions
	if opts != nil {
		o = *opts
	}
	counts, err := NewMetrics(metrics, &o.Metrics)
	if err != nil {
		return nil, nil, err
	}
	entries := NewLog(log, &o.Log)
	observer := event.Observers(entries, counts)
	return observer, []server.Middleware{
		entries.Wrap, counts.Wrap, Recover(observer), Payload(&o.Payload), Limit(&o.Limit),
		Timeout(o.Timeout),
	}, nil
}
