package telemetry

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/rondo-mcp/rondo/server"
)

const scope = "github.com/rondo-mcp/rondo/roundtrip/telemetry"

// Options configure [New]. The zero value works.
type Options struct {
	TracerProvider trace.TracerProvider // nil: [otel.GetTracerProvider]
	// MeterProvider gets mcp.{server,client}.operation.duration. Nil: [otel.GetMeterProvider].
	MeterProvider metric.MeterProvider
	// TrustCaller reports whether to trust a request's trace context: its span becomes the parent,
	// whose sampled flag a sampler may follow, and its tracestate and baggage are adopted.
	// Otherwise the span is a link. Trust only your own gateways and programs; nil trusts none.
	TrustCaller func(*server.Request) bool
	// Baggage accepts the baggage of trusted callers, and sends the context's baggage to called
	// servers, who can read it. Baggage over 8 KiB is dropped.
	Baggage bool
}

// A Telemetry makes spans of requests, questions and answers. It is the middleware, observer and
// [roundtrip.Tracer] of servers, and wraps clients' connections. All methods may be called
// concurrently, for any number of servers and clients.
type Telemetry struct {
	trustCaller func(*server.Request) bool
	propagator  propagation.TextMapPropagator
	tracer      trace.Tracer

	serverDuration, clientDuration metric.Float64Histogram
}

// New returns a Telemetry; opts may be nil. It fails if the MeterProvider does.
func New(opts *Options) (*Telemetry, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	t := &Telemetry{trustCaller: o.TrustCaller, tracer: o.TracerProvider.Tracer(scope),
		propagator: propagation.TraceContext{}}
	if o.Baggage {
		t.propagator = propagation.NewCompositeTextMapPropagator(t.propagator,
			propagation.Baggage{})
	}
	meter := o.MeterProvider.Meter(scope)
	var err error
	if t.serverDuration, err = newDuration(meter, "mcp.server.operation.duration"); err != nil {
		return nil, err
	}
	t.clientDuration, err = newDuration(meter, "mcp.client.operation.duration")
	return t, err
}

// newDuration returns a histogram with the buckets of the semantic conventions.
func newDuration(meter metric.Meter, name string) (metric.Float64Histogram, error) {
	return meter.Float64Histogram(name, metric.WithUnit("s"),
		metric.WithDescription("Duration of requests, with the time that people take."),
		metric.WithExplicitBucketBoundaries(
			.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300))
}
