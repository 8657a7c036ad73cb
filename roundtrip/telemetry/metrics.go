package telemetry

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Metrics returns a sink for the metrics of package middleware and of routers, from the same table
// as for Prometheus. rondo_human_wait_seconds becomes "rondo.human_wait" in seconds,
// rondo_requests_total "rondo.requests"; exporters for Prometheus restore the names.
func Metrics(provider metric.MeterProvider) event.MetricSink { return sink{provider.Meter(scope)} }

type sink struct{ meter metric.Meter }

// Register implements [event.MetricSink].
func (s sink) Register(table []event.Series) ([]event.Vector, error) {
	vectors := make([]event.Vector, len(table))
	for i := range table {
		series := &table[i]
		record, err := s.newInstrument(series)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", series.Name, err)
		}
		vectors[i] = func(values ...string) event.Instrument {
			labels := make([]attribute.KeyValue, len(values))
			for i, value := range values {
				labels[i] = attribute.String(series.Labels[i], value)
			}
			in := instrument{record, metric.WithAttributeSet(attribute.NewSet(labels...))}
			switch {
			case series.Constant:
				in.Add(1)
			case series.Buckets == nil:
				in.Add(0) // so that the series exists
			}
			return in
		}
	}
	return vectors, nil
}

type recorder func(value float64, labels metric.MeasurementOption)

func (s sink) newInstrument(series *event.Series) (recorder, error) {
	name, unit := strings.Replace(series.Name, "_", ".", 1), "1"
	name = strings.TrimSuffix(name, "_total")
	for suffix, of := range map[string]string{"_seconds": "s", "_bytes": "By"} {
		if short, ok := strings.CutSuffix(name, suffix); ok {
			name, unit = short, of
		}
	}
	ctx := context.Background()
	help, in := metric.WithDescription(series.Help), metric.WithUnit(unit)
	switch {
	case series.Buckets != nil:
		h, err := s.meter.Float64Histogram(name, help, in,
			metric.WithExplicitBucketBoundaries(series.Buckets...))
		return func(v float64, l metric.MeasurementOption) { h.Record(ctx, v, l) }, err
	case series.Constant:
		g, err := s.meter.Float64Gauge(name, help, in)
		return func(v float64, l metric.MeasurementOption) { g.Record(ctx, v, l) }, err
	case series.Gauge:
		c, err := s.meter.Float64UpDownCounter(name, help, in)
		return func(v float64, l metric.MeasurementOption) { c.Add(ctx, v, l) }, err
	}
	c, err := s.meter.Float64Counter(name, help, in)
	return func(v float64, l metric.MeasurementOption) { c.Add(ctx, v, l) }, err
}

type instrument struct {
	record recorder
	labels metric.MeasurementOption
}

// Add implements [event.Instrument].
func (i instrument) Add(value float64) { i.record(value, i.labels) }
