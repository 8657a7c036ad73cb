// Package prom exports server and router metrics to Prometheus.
//
//	metrics, err := middleware.NewMetrics(prom.New(prometheus.DefaultRegisterer), nil)
package prom

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// New returns a sink that registers metrics with registerer; nil disables them. Servers with equal
// registerer and options share series; separate them with [prometheus.WrapRegistererWith].
func New(registerer prometheus.Registerer) event.MetricSink {
	if registerer == nil {
		return nil
	}
	return sink{registerer}
}

type sink struct{ registerer prometheus.Registerer }

func (s sink) Register(table []event.Series) ([]event.Vector, error) {
	r := &registration{registerer: s.registerer}
	vectors := make([]event.Vector, len(table))
	for i := range table {
		if vectors[i] = r.newVector(&table[i]); r.err != nil {
			for _, c := range r.added {
				s.registerer.Unregister(c)
			}
			return nil, fmt.Errorf("%s: %w", table[i].Name, r.err)
		}
	}
	return vectors, nil
}

// A registration registers collectors until the first error.
type registration struct {
	registerer prometheus.Registerer
	added      []prometheus.Collector
	err        error
}

func (r *registration) newVector(s *event.Series) event.Vector {
	switch {
	case s.Buckets != nil:
		vec := register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: s.Name, Help: s.Help, Buckets: s.Buckets}, s.Labels))
		return func(values ...string) event.Instrument {
			return histogram{vec.WithLabelValues(values...)}
		}
	case s.Gauge, s.Constant:
		vec := register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: s.Name, Help: s.Help}, s.Labels))
		return func(values ...string) event.Instrument {
			gauge := vec.WithLabelValues(values...)
			if s.Constant {
				gauge.Set(1)
			}
			return gauge
		}
	}
	vec := register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: s.Name, Help: s.Help}, s.Labels))
	return func(values ...string) event.Instrument { return vec.WithLabelValues(values...) }
}

// register returns c, or the collector already registered in its place.
func register[C prometheus.Collector](r *registration, c C) C {
	r.err = r.registerer.Register(c)
	if taken, ok := errors.AsType[prometheus.AlreadyRegisteredError](r.err); ok {
		if existing, ok := taken.ExistingCollector.(C); ok {
			r.err = nil
			return existing
		}
	}
	if r.err == nil {
		r.added = append(r.added, c)
	}
	return c
}

type histogram struct{ prometheus.Observer }

func (h histogram) Add(value float64) { h.Observe(value) }
