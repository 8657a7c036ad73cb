package collector_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/internal/collector"
)

func TestUsersOfOneRegistererShareACollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	newGauge := func() prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "open", Help: "What is open."})
	}
	first, added, err := collector.Register(registry, newGauge())
	if err != nil || !added {
		t.Fatalf("the first: added %v, %v", added, err)
	}
	second, added, err := collector.Register(registry, newGauge())
	if err != nil || added || second != first {
		t.Errorf("the second: the same %v, added %v, %v", second == first, added, err)
	}
	vector := prometheus.NewGaugeVec(
		prometheus.GaugeOpts{Name: "open", Help: "What is open."}, nil)
	if got, added, err := collector.Register(registry, vector); err == nil || added ||
		got != vector {
		t.Errorf("one of another type: added %v, %v", added, err)
	}
}
