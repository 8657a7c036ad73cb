package elicitation

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rondo-mcp/rondo/internal/collector"
	"github.com/rondo-mcp/rondo/protocol"
)

// metrics are the counters of one or more routers. They are one collector, so that each
// scrape is a snapshot in which
//
//	requests = completed + timeouts + errors + cancelled + pending
//
// holds exactly.
type metrics struct {
	mu        sync.Mutex // guards what follows
	requests  uint64
	pending   int64
	completed map[protocol.ElicitAction]uint64
	timeouts  uint64
	errors    map[Reason]uint64
	cancels   map[CancelledBy]uint64
	refusals  map[Reason]uint64
	lost      map[Reason]uint64 // replies
	durations prometheus.Histogram

	desc [8]*prometheus.Desc
}

// The series, in the order of metrics.desc.
const (
	seriesRequests = iota
	seriesCompleted
	seriesTimeout
	seriesPending
	seriesErrors
	seriesCancelled
	seriesRejected
	seriesRepliesLost
)

// actionUnseen is the label of a decline or cancel that nobody has seen the question of.
const actionUnseen protocol.ElicitAction = "unseen"

// durationBuckets goes from clients that answer by themselves to people who take
// ten minutes, in seconds.
func durationBuckets() []float64 {
	return []float64{.01, .05, .1, .5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300, 600}
}

// registerMetrics returns metrics that are registered, or those that another
// router has registered before.
func registerMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := newMetrics()
	if registerer == nil {
		return m, nil
	}
	registered, _, err := collector.Register(registerer, m)
	if err != nil {
		return nil, err
	}
	return registered, nil
}

func newMetrics() *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("elicitation_"+name, help, labels, nil)
	}
	m := &metrics{
		completed: make(map[protocol.ElicitAction]uint64), errors: make(map[Reason]uint64),
		cancels: make(map[CancelledBy]uint64), refusals: make(map[Reason]uint64),
		lost: make(map[Reason]uint64),
		durations: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "elicitation_duration_seconds", Buckets: durationBuckets(),
			Help: "Time from the creation of an elicitation to its end, whatever that was.",
		}),
		desc: [...]*prometheus.Desc{
			seriesRequests: desc("requests_total", "Elicitations created."),
			seriesCompleted: desc("completed_total", "Elicitations that the client answered.",
				"action"),
			seriesTimeout:   desc("timeout_total", "Elicitations that nobody answered in time."),
			seriesPending:   desc("pending", "Elicitations that wait for their end."),
			seriesErrors:    desc("errors_total", "Elicitations that failed.", "reason"),
			seriesCancelled: desc("cancelled_total", "Elicitations that were withdrawn.", "by"),
			seriesRejected: desc("rejected_total",
				"Elicitations that were refused and never created.", "reason"),
			seriesRepliesLost: desc("replies_lost_total",
				"Accepted replies that another replica did not get.", "reason"),
		},
	}
	// All series are there from the beginning, so that the first increase shows.
	for _, a := range [...]protocol.ElicitAction{
		protocol.ActionAccept, protocol.ActionDecline, protocol.ActionCancel, actionUnseen,
	} {
		m.completed[a] = 0
	}
	for _, reason := range [...]Reason{
		ReasonDelivery, ReasonClientError, ReasonInvalidReply,
		ReasonInvalidContent, ReasonAnswerLost,
	} {
		m.errors[reason] = 0
	}
	for _, by := range [...]CancelledBy{ByUpstream, ByClient, ByCallEnd, BySession, ByShutdown} {
		m.cancels[by] = 0
	}
	for _, reason := range [...]Reason{
		ReasonNoSession, ReasonAmbiguous, ReasonCapability, ReasonMode, ReasonInvalidQuestion,
		ReasonTooLarge, ReasonSecret, ReasonURLPolicy, ReasonCapacity, ReasonShutdown, ReasonStore,
		ReasonDelivery,
	} {
		m.refusals[reason] = 0
	}
	for _, reason := range [...]Reason{ReasonDelivery, ReasonTimeout, ReasonShutdown} {
		m.lost[reason] = 0
	}
	return m
}

func (m *metrics) countCreated() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	m.pending++
}

func (m *metrics) countEnded(out outcome, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending--
	switch out.state {
	case stateCompleted:
		action := out.result.Action
		if out.unseen {
			action = actionUnseen
		}
		m.completed[action]++
	case stateTimedOut:
		m.timeouts++
	case stateCancelled:
		m.cancels[out.err.By]++
	default:
		m.errors[out.err.Reason]++
	}
	m.durations.Observe(took.Seconds())
}

func (m *metrics) countRejected(reason Reason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusals[reason]++
}

func (m *metrics) countLostReply(reason Reason) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost[reason]++
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.desc {
		out <- d
	}
	m.durations.Describe(out)
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, metric := range m.snapshot() {
		out <- metric
	}
	m.durations.Collect(out)
}

// snapshot returns all counters at one moment. mu is not held while Collect hands them
// over.
func (m *metrics) snapshot() []prometheus.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []prometheus.Metric
	add := func(series int, kind prometheus.ValueType, value float64, label ...string) {
		all = append(all, prometheus.MustNewConstMetric(m.desc[series], kind, value, label...))
	}
	add(seriesRequests, prometheus.CounterValue, float64(m.requests))
	add(seriesTimeout, prometheus.CounterValue, float64(m.timeouts))
	add(seriesPending, prometheus.GaugeValue, float64(m.pending))
	for action, n := range m.completed {
		add(seriesCompleted, prometheus.CounterValue, float64(n), string(action))
	}
	for reason, n := range m.errors {
		add(seriesErrors, prometheus.CounterValue, float64(n), string(reason))
	}
	for by, n := range m.cancels {
		add(seriesCancelled, prometheus.CounterValue, float64(n), string(by))
	}
	for reason, n := range m.refusals {
		add(seriesRejected, prometheus.CounterValue, float64(n), string(reason))
	}
	for reason, n := range m.lost {
		add(seriesRepliesLost, prometheus.CounterValue, float64(n), string(reason))
	}
	return all
}
