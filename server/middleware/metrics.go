package middleware

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rondo-mcp/rondo/internal/collector"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
)

// DefaultNamespace is the first part of the names of metrics.
const DefaultNamespace = "rondo"

// MetricsOptions configure [Metrics]. The zero value works.
type MetricsOptions struct {
	// Namespace is the first part of every name, "": [DefaultNamespace].
	Namespace string
	// DurationBuckets are the upper bounds of the histogram of durations, in
	// seconds and increasing. Nil: from half a millisecond to a minute.
	DurationBuckets []float64
	// Targets are the names of tools and prompts, and the URIs of resources, that
	// get series of their own: rondo_requests_total,
	// rondo_request_duration_seconds and rondo_request_waiting_seconds then have
	// the label "target", which is "other" for what is not listed and empty for
	// methods that have no target.
	// Each adds a series for each outcome and a histogram. Nil: no such label.
	Targets []string
}

// Metrics counts and times requests for Prometheus, as a middleware, and what
// happens in flows, as an observer. Name it in the server's options for both:
//
//	Observer:   metrics,
//	Middleware: []server.Middleware{metrics.Wrap, …},
//
// As a middleware, for each leg:
//
//	rondo_requests_total{method,era,outcome}
//	rondo_request_duration_seconds{method,era}
//	rondo_request_waiting_seconds{method,era}
//	rondo_requests_in_flight
//	rondo_requests_waiting
//
// The durations are those of work. The time for which a call waits for people,
// as calls of legacy sessions do, is observed apart, for calls that waited at all.
// Requests that wait are also in flight. Where Wrap is not used, as on an adapter,
// the metrics of requests that wait come from events, and each wait of a call is
// observed for itself.
//
// With MetricsOptions.Targets the first three have the label target, too. And once:
//
//	rondo_build_info{version,goversion,revision}
//
// As an observer:
//
//	rondo_input_required_total{kind}           questions asked
//	rondo_flows_ended_total{how}               flows of more than one leg
//	rondo_flow_rounds                          rounds of such a flow
//	rondo_human_wait_seconds                   from questions to answers
//	rondo_state_bytes                          size of requestState sent
//	rondo_state_rejections_total{reason}
//	rondo_capability_refusals_total{capability}
//	rondo_push_failures_total{outcome}         questions put while a call runs, in vain
//	rondo_dropped_answers_total{reason}
//	rondo_http_refusals_total{status,reason}   before any middleware
//	rondo_line_refusals_total{reason}          the same on stdio and the like
//	rondo_quota_refusals_total{resource}       guard, store, subscriptions, waiting, meta
//	rondo_cut_off_total{retriable}             requests that ended without a result
//	rondo_store_failures_total{operation}      of a guard or a store
//	rondo_reworded_questions_total             by another version of the application
//	rondo_sessions_evicted_total
//	rondo_forwarded_requests_total{outcome}    to the replica that owns the session
//	rondo_answers_total{kind,outcome}          what people decided
//	rondo_invalid_answers_total{rule}          accepted answers that did not fit
//	rondo_ignored_declines_total               completed, and nobody had looked
//	rondo_handler_failures_total               without those of clients that have gone
//	rondo_handler_panics_total
//	rondo_server_bugs_total
//
// The sum of rondo_requests_total is the number of requests that were answered,
// each leg of a flow for itself, but for those that a transport refuses before
// any middleware. Outcomes are named as in [Log].
//
// Every label has a fixed set of values: methods that are not the protocol's
// are counted as "other", and so are reasons and codes that are not known here.
// Tools and resources are no labels unless they are listed, and principals are
// none; peers and authors could make up any number of them.
//
// Place it below [Log] and above [Recover].
type Metrics struct {
	legs          legSeries
	inFlight      prometheus.Gauge
	waiting       prometheus.Gauge
	wrapsRequests atomic.Bool // it is a middleware, which knows who waits
	events        eventMetrics
}

// NewMetrics registers the metrics with registerer. Metrics of a second server
// in the process that uses the same registerer and the same options are added
// up in the same series; to tell servers apart, wrap it with
// [prometheus.WrapRegistererWith]. A nil registerer registers nothing.
//
// It is an error when a name is taken by something else, naming it, and nothing
// is left registered. opts may be nil.
func NewMetrics(registerer prometheus.Registerer, opts *MetricsOptions) (*Metrics, error) {
	var o MetricsOptions
	if opts != nil {
		o = *opts
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.DurationBuckets == nil {
		o.DurationBuckets = durationBuckets()
	}
	for i, bound := range o.DurationBuckets {
		if i > 0 && !(bound > o.DurationBuckets[i-1]) {
			return nil, fmt.Errorf("middleware: metrics: DurationBuckets must increase, got %v "+
				"after %v",
				bound, o.DurationBuckets[i-1])
		}
	}
	r := &registration{registerer: registerer, namespace: o.Namespace}
	m := &Metrics{
		legs: newLegSeries(r, o),
		inFlight: register(r, "requests_in_flight", prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: o.Namespace, Name: "requests_in_flight", Help: "Requests being served.",
		})),
		waiting: register(r, "requests_waiting", prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: o.Namespace, Name: "requests_waiting",
			Help: "Requests being served that wait for people.",
		})),
	}
	m.events = newEventMetrics(r)
	registerBuildInfo(r)
	if r.err != nil {
		r.unregisterAll()
		return nil, fmt.Errorf("middleware: metrics: %w", r.err)
	}
	return m, nil
}

// durationBuckets covers handlers that compute and handlers that wait for other
// services, up to where clients commonly give up.
func durationBuckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// Wrap is the [server.Middleware] that counts and times each leg.
func (m *Metrics) Wrap(next server.Handler) server.Handler {
	m.wrapsRequests.Store(true)
	return func(ctx context.Context, request *server.Request) (result protocol.Result, err error) {
		ctx, leg := withLeg(ctx, request)
		outcome := outcomePanic
		m.inFlight.Inc()
		leg.countWaiting(m.waiting)
		defer func() {
			work, waited := leg.endLeg()
			m.inFlight.Dec()
			series := m.legs.seriesOf(request, outcome)
			series.requests.Inc()
			series.durations.Observe(work.Seconds())
			if waited > 0 {
				series.waits.Observe(waited.Seconds())
			}
		}()
		result, err = next(ctx, request)
		outcome = outcomeOf(ctx, leg, result, err)
		return result, err
	}
}

// methodLabel returns "other" for methods that are not the protocol's, so that
// peers cannot create series.
func methodLabel(method string) string {
	switch method {
	case protocol.MethodDiscover, protocol.MethodListTools, protocol.MethodCallTool,
		protocol.MethodListPrompts, protocol.MethodGetPrompt,
		protocol.MethodListResources, protocol.MethodListResourceTemplates,
		protocol.MethodReadResource,
		protocol.MethodComplete, protocol.MethodListen,
		protocol.MethodInitialize, protocol.MethodPing, protocol.MethodSetLevel,
		protocol.MethodSubscribe, protocol.MethodUnsubscribe:
		return method
	}
	return otherLabel
}

// otherLabel is the label value of everything that has no series of its own.
const otherLabel = "other"

// registration registers collectors until the first error.
type registration struct {
	registerer prometheus.Registerer
	namespace  string
	added      []prometheus.Collector
	err        error
}

// register returns c, or the collector that is registered in its place already.
func register[C prometheus.Collector](r *registration, name string, c C) C {
	if r.registerer == nil || r.err != nil {
		return c
	}
	registered, added, err := collector.Register(r.registerer, c)
	if added {
		r.added = append(r.added, c)
	}
	if err != nil {
		r.err = fmt.Errorf("%s_%s: %w", r.namespace, name, err)
	}
	return registered
}

func (r *registration) newCounters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(r, name, prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: r.namespace, Name: name, Help: help,
	}, labels))
}

func (r *registration) newCounter(name, help string) prometheus.Counter {
	return register(r, name, prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: r.namespace, Name: name, Help: help,
	}))
}

func (r *registration) newHistogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(r, name, prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: r.namespace, Name: name, Help: help, Buckets: buckets,
	}))
}

func (r *registration) unregisterAll() {
	for _, c := range r.added {
		r.registerer.Unregister(c)
	}
}

// modulePath is that of this module.
const modulePath = "github.com/rondo-mcp/rondo"

// registerBuildInfo registers a gauge that is always 1 and whose labels say what
// runs: the release of this module, that of Go, and the revision of the program
// where the toolchain has recorded one.
func registerBuildInfo(r *registration) {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Path == modulePath && info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, dependency := range info.Deps {
			if dependency.Path == modulePath {
				version = dependency.Version
			}
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	register(r, "build_info", prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: r.namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version(),
			"revision": revision},
	}, func() float64 { return 1 }))
}
