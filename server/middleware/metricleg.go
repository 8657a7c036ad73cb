package middleware

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// legSeries are the series that legs are counted in. A copy-on-write table maps
// labels to series: looking a series up by its labels in the client library costs
// more than counting.
type legSeries struct {
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	waits     *prometheus.HistogramVec
	targets   map[string]bool // nil: no label

	mu    *sync.Mutex // held to add to found
	found *atomic.Pointer[map[legLabels]boundSeries]
}

// legLabels are the labels of a leg. Their values are few, whatever peers send.
type legLabels struct {
	method, outcome, target string
	era                     protocol.Era
}

// boundSeries are the series of one set of labels.
type boundSeries struct {
	requests  prometheus.Counter
	durations prometheus.Observer
	waits     waitSeries
}

// A waitSeries creates its series at the first observation: most legs never wait.
type waitSeries struct {
	vec    *prometheus.HistogramVec
	labels []string
}

// Observe implements [prometheus.Observer].
func (w waitSeries) Observe(seconds float64) { w.vec.WithLabelValues(w.labels...).Observe(seconds) }

func newLegSeries(r *registration, o MetricsOptions) legSeries {
	s := legSeries{mu: &sync.Mutex{}, found: &atomic.Pointer[map[legLabels]boundSeries]{}}
	s.found.Store(&map[legLabels]boundSeries{})
	countLabels, timeLabels := []string{"method", "era", "outcome"}, []string{"method", "era"}
	if o.Targets != nil {
		s.targets = make(map[string]bool, len(o.Targets))
		for _, name := range o.Targets {
			s.targets[name] = true
		}
		countLabels, timeLabels = append(countLabels, "target"), append(timeLabels, "target")
	}
	s.requests = r.newCounters("requests_total",
		"Requests answered, each leg of a flow for itself.", countLabels...)
	s.durations = register(r, "request_duration_seconds",
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: r.namespace, Name: "request_duration_seconds",
			Help: "Time from the arrival of a request to its answer, less that for which it " +
				"waited for people, each leg of a flow for itself.",
			Buckets: o.DurationBuckets,
		}, timeLabels))
	s.waits = register(r, "request_waiting_seconds",
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: r.namespace, Name: "request_waiting_seconds",
			Help: "Time for which requests that asked people waited for them, each leg of a flow " +
				"for itself.",
			Buckets: waitBuckets(),
		}, timeLabels))
	return s
}

// seriesOf returns the series of a leg.
func (s *legSeries) seriesOf(request *server.Request, outcome string) boundSeries {
	labels := legLabels{methodLabel(request.Message.Method), outcome, s.targetLabel(request.Target),
		request.Version.Era()}
	if series, ok := (*s.found.Load())[labels]; ok {
		return series
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	values := s.timeLabels(labels)
	count := append([]string{labels.method, labels.era.String(), labels.outcome}, values[2:]...)
	series := boundSeries{s.requests.WithLabelValues(count...),
		s.durations.WithLabelValues(values...), waitSeries{s.waits, values}}
	table := maps.Clone(*s.found.Load())
	table[labels] = series
	s.found.Store(&table)
	return series
}

// timeLabels returns the label values of a duration.
func (s *legSeries) timeLabels(labels legLabels) []string {
	values := []string{labels.method, labels.era.String()}
	if s.targets != nil {
		values = append(values, labels.target)
	}
	return values
}

// seriesOfWait returns the series of a wait that is known from events alone.
func (s *legSeries) seriesOfWait(where event.Where) waitSeries {
	labels := legLabels{methodLabel(where.Method), "", s.targetLabel(where.Target),
		where.Version.Era()}
	return waitSeries{s.waits, s.timeLabels(labels)}
}

// targetLabel returns "other" for targets that are not listed, so that peers
// cannot create series.
func (s *legSeries) targetLabel(target string) string {
	if s.targets == nil || target == "" {
		return ""
	}
	if s.targets[target] {
		return target
	}
	return otherLabel
}
