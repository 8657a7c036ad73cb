package bridge

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/internal/collector"
)

// A resumeKind says what became of a request with a state. It is a label of the metrics.
type resumeKind string

const (
	resumeAnswered resumeKind = "answered" // it had new answers
	resumeJoined   resumeKind = "joined"   // another with the same answers waits already
	resumeRepeated resumeKind = "repeated" // its outcome was there already
	resumeRefused  resumeKind = "refused"  // the state or the answers are not good
	resumeGone     resumeKind = "gone"     // the call, or the replica that had it, is no more
	resumeExpired  resumeKind = "expired"  // the call has lasted too long
)

// An endKind says how a call ended. It is a label of the metrics.
type endKind string

const (
	endDone      endKind = "done"      // the upstream returned a result
	endFailed    endKind = "failed"    // it returned an error, or could not be reached
	endAbandoned endKind = "abandoned" // the client went away
	endExpired   endKind = "expired"   // it lasted too long
	endRounds    endKind = "rounds"    // the upstream asked too often
	endShutdown  endKind = "shutdown"  // the gateway ended first
)

// metrics are those of one or more bridges.
type metrics struct {
	parked  prometheus.Gauge
	seconds prometheus.Histogram
	ended   *prometheus.CounterVec
	resumes *prometheus.CounterVec
}

func newMetrics() *metrics {
	m := &metrics{
		parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "elicitation_parked",
			Help: "Calls of clients without sessions that are open upstream."}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "elicitation_parked_seconds",
			Help:    "Time from the beginning of such a call to its end, whatever that was.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600}}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "elicitation_unparked_total",
			Help: "Such calls that have ended."}, []string{"how"}),
		resumes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "elicitation_resumes_total",
			Help: "Requests with a requestState."}, []string{"how"}),
	}
	// All series are there from the beginning, so that the first increase shows.
	for _, how := range [...]endKind{
		endDone, endFailed, endAbandoned, endExpired, endRounds, endShutdown,
	} {
		m.ended.WithLabelValues(string(how))
	}
	for _, how := range [...]resumeKind{
		resumeAnswered, resumeJoined, resumeRepeated, resumeRefused, resumeGone, resumeExpired,
	} {
		m.resumes.WithLabelValues(string(how))
	}
	return m
}

// registerMetrics returns metrics that are registered, or those that another bridge has
// registered before. registerer may be nil.
func registerMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := newMetrics()
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(register(registerer, &m.parked), register(registerer, &m.seconds),
		register(registerer, &m.ended), register(registerer, &m.resumes))
}

// register registers a collector, or takes the one that is registered in its place.
func register[C prometheus.Collector](registerer prometheus.Registerer, c *C) error {
	registered, _, err := collector.Register(registerer, *c)
	*c = registered
	return err
}

func (m *metrics) countParked() { m.parked.Inc() }

func (m *metrics) countEnded(how endKind, took time.Duration) {
	m.parked.Dec()
	m.ended.WithLabelValues(string(how)).Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) countResume(how resumeKind) { m.resumes.WithLabelValues(string(how)).Inc() }
