package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/middleware"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
)

// labelsOf returns the values of each label of each series that the gateway registers.
func labelsOf(t *testing.T) map[string]map[string][]string {
	t.Helper()
	registry := prometheus.NewRegistry()
	observer, _, err := middleware.Production(nil, prom.New(registry), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(&gateway.Options{
		Server: server.Options{Observer: observer}, Metrics: prom.New(registry),
		Upstreams: []gateway.Upstream{
			{Name: "a", Connect: gateway.HTTP("http://127.0.0.1:1/mcp", nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string][]string{ // series that do not exist before the first request
		"rondo_requests_total": {"job": nil, "outcome": nil}}
	for _, family := range families {
		labels := map[string][]string{"instance": nil, "job": nil} // added by Prometheus
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = append(labels[label.GetName()], label.GetValue())
			}
		}
		all[family.GetName()] = labels
	}
	return all
}

var (
	selector = regexp.MustCompile(`((?:elicitation|rondo)_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)=~?"([^"]*)"`)
	summed   = regexp.MustCompile(`sum by \(([\w, ]+)\) \(?\w*\(?((?:elicitation|rondo)_\w+)`)
)

// The operators' files name existing series, labels and values, and show all series.
func TestOperatorsFilesNameWhatThereIs(t *testing.T) {
	all := labelsOf(t)
	for _, name := range []string{"dashboard.json", "alerts.yml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), `\"`, `"`)
		shown := map[string]bool{}
		for _, m := range selector.FindAllStringSubmatch(text, -1) {
			series := strings.TrimSuffix(m[1], "_bucket")
			labels, ok := all[series]
			if !ok {
				t.Errorf("%s names %s, which does not exist", name, m[1])
			}
			shown[series] = true
			for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
				for value := range strings.SplitSeq(label[2], "|") {
					if label[1] != "job" && label[1] != "outcome" &&
						!slices.Contains(labels[label[1]], value) {
						t.Errorf("%s: %s has no %s %q", name, m[1], label[1], value)
					}
				}
			}
		}
		for _, m := range summed.FindAllStringSubmatch(text, -1) {
			for label := range strings.SplitSeq(m[1], ", ") {
				if _, ok := all[strings.TrimSuffix(m[2], "_bucket")][label]; !ok && label != "le" {
					t.Errorf("%s sums %s by %s, which it does not have", name, m[2], label)
				}
			}
		}
		for series := range all {
			if strings.HasPrefix(series, "elicitation_") && !shown[series] &&
				name == "dashboard.json" {
				t.Errorf("no panel shows %s", series)
			}
		}
		if len(shown) < 5 {
			t.Errorf("%s names %d series", name, len(shown))
		}
	}
}
