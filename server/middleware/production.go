package middleware

import (
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// Production returns all middleware of this package in the recommended order, and its observer:
//
//	observer, chain, err := middleware.Production(zaplog.New(logger),
//		prom.New(prometheus.DefaultRegisterer), nil)
//	…
//	srv, err := server.New(&server.Options{Observer: observer, Middleware: chain})
//
// A nil log is silent, nil metrics are disabled, and opts may be nil. The error is from
// [NewMetrics]. Put your own middleware before, after or into the chain, see the package comment.
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
