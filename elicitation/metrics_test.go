package elicitation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/server/middleware/prom"
)

// The names are part of the contract; all series exist from the start.
func TestMetricNames(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	families, err := r.registry.Gather()
	noError(t, err)
	var got []string
	for _, f := range families {
		label := ""
		if l := f.GetMetric()[0].GetLabel(); len(l) > 0 {
			label = "{" + l[0].GetName() + "}"
		}
		got = append(got, fmt.Sprint(f.GetName(), label, " ", strings.ToLower(f.GetType().String()),
			" ", len(f.GetMetric())))
	}
	want := []string{
		"elicitation_cancelled_total{by} counter 5",
		"elicitation_completed_total{action} counter 4",
		"elicitation_duration_seconds histogram 1",
		"elicitation_errors_total{reason} counter 4",
		"elicitation_pending gauge 1",
		"elicitation_rejected_total{reason} counter 11",
		"elicitation_requests_total counter 1",
		"elicitation_timeout_total counter 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("metrics are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if problems, err := testutil.GatherAndLint(r.registry); err != nil || len(problems) > 0 {
		t.Errorf("the linter says %v, %v", problems, err)
	}
	h := families[slices.Index(got, "elicitation_duration_seconds histogram 1")].GetMetric()[0].
		GetHistogram()
	wantEqual(t, "upper bound of the histogram",
		h.GetBucket()[len(h.GetBucket())-1].GetUpperBound(), 600.0)
}

// Metrics of routers on one registry add up; on wrapped registries they stay apart.
func TestSharedRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	one := prometheus.WrapRegistererWith(prometheus.Labels{"gateway": "one"}, registry)
	two := prometheus.WrapRegistererWith(prometheus.Labels{"gateway": "two"}, registry)
	for _, to := range []prometheus.Registerer{one, two, one} {
		r := newRig(t, elicitation.Options{Metrics: prom.New(to)})
		_, offered, _ := r.offered()
		offered.Cancel()
	}
	got := series(t, registry)
	if got["requests_total{one}"] != 2 || got["requests_total{two}"] != 1 {
		t.Errorf("counted are %v, want 2 requests of one and 1 of two", got)
	}
	books(t, registry)
}

func TestTakenName(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "elicitation_pending",
		Help: "Something else."}))
	if _, err := elicitation.New(&elicitation.Options{Metrics: prom.New(registry)}); err == nil {
		t.Error("a name that is taken is no error")
	}
}

// Metrics balance after questions that began and ended concurrently.
func TestBooksBalance(t *testing.T) {
	r := newRig(t, elicitation.Options{MaxPerPrincipal: 4})
	s := r.attach(elicitation.SessionInfo{ID: "s1", Principal: alice()})
	var wg sync.WaitGroup
	asked := make([]int, 8)
	for i := range asked {
		wg.Go(func() {
			call := r.begin(elicitation.Origin{Session: s}, byHand(), "up")
			for n := range 200 {
				o, err := offer(call, t.Context(), form("m"), func(outcome) {})
				if err != nil {
					continue
				}
				asked[i]++
				switch n % 4 {
				case 0:
					r.HandleReply(s.Sender(), result(o.Request().ID, yes))
				case 1:
					o.FailDelivery(context.Canceled)
				case 2:
					r.HandleReply(s.Sender(), result(o.Request().ID, `{}`))
				case 3:
					o.Cancel()
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range asked {
		total += n
	}
	got := books(t, r.registry)
	if int(got["requests_total"]) != total || int(got["duration_seconds"]) != total ||
		int(got["rejected_total"]) != 1600-total {
		t.Errorf("counted are %v, want %d requests and %d refusals", got, total, 1600-total)
	}
	r.settled()
}
