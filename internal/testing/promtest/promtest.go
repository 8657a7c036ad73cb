// Package promtest reads metrics that are kept for Prometheus. It is apart because it depends on that.
package promtest

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Series returns the values of all series by name and labels, as in name{label="value"}. Of a
// histogram it is the number of observations.
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
