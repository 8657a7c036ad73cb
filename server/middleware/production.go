package middleware

import (
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

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
func Production(log event.LogSink, metrics event.MetricSink, opts *Options) (
	event.Observer, []server.Middleware, error) {
	o := opts.orDefault()
	counts, err := NewMetrics(metrics, &o)
	if err != nil {
		return nil, nil, err
	}
	entries := NewLog(log, &o)
	observer := event.Observers(entries, counts)
	return observer, []server.Middleware{
		entries.Wrap, counts.Wrap, Recover(observer), Payload(&o), Limit(&o),
		Timeout(o.Timeout),
	}, nil
}
