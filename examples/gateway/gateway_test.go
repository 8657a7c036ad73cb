package main

import (
	"encoding/json"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/rondo-mcp/rondo/elicitation"
	frontdoor "github.com/rondo-mcp/rondo/elicitation/gateway"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestDemo runs what a reader is told to run.
func TestDemo(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), nil, &out, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"alice is asked: Deploy to alice-production?\n", "bob is asked: Deploy to bob-production?\n",
		"alice gets: deployed to alice-production: alice said so\n", "bob gets: deployed to bob-production: bob said so\n",
		"alice gets: made alice-orders in eu\n", "bob gets: made bob-orders in us\n",
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("printed %d times: %s", strings.Count(out.String(), want), want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestDashboard shows series that there are, with labels that they have.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	if _, err := elicitation.New(&elicitation.Options{Metrics: prom.New(registry)}); err != nil {
		t.Fatal(err)
	}
	f := &file{Upstreams: []fileUpstream{{Name: "a", URL: "http://127.0.0.1:1/mcp"}}}
	opts, _, err := f.options(zap.NewNop(), registry)
	if err != nil {
		t.Fatal(err)
	}
	configured, err := frontdoor.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer configured.Close()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{} // names of them, by series
	for _, family := range families {
		names := "instance" // which Prometheus adds
		for _, label := range family.GetMetric()[0].GetLabel() {
			names += " " + label.GetName()
		}
		labels[family.GetName()] = names
	}
	series := regexp.MustCompile(`(elicitation|rondo)_\w+`)
	by := regexp.MustCompile(`sum by \((\w+)\)`)
	shown := map[string]bool{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			name := strings.TrimSuffix(series.FindString(target.Expr), "_bucket")
			label, ok := labels[name]
			if !ok {
				t.Errorf("%s shows %s, which does not exist", panel.Title, name)
			}
			if m := by.FindStringSubmatch(target.Expr); m != nil && m[1] != "le" &&
				!slices.Contains(strings.Fields(label), m[1]) {
				t.Errorf("%s sums %s by %s, which it does not have", panel.Title, name, m[1])
			}
			shown[name] = true
		}
	}
	for name := range labels {
		if !shown[name] && strings.HasPrefix(name, "elicitation_") {
			t.Errorf("no panel shows %s", name)
		}
	}
}
