// Package promtest reads Prometheus metrics. A package of its own keeps that dependency apart.
package promtest

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Series returns series by name and labels, as in name{label="value"}; a histogram's is its count.
func Series(t testing.TB, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			all[name] = cmp.Or(m.GetCounter().GetValue(), m.GetGauge().GetValue(),
				float64(m.GetHistogram().GetSampleCount()))
		}
	}
	return all
}
