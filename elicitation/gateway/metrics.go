package gateway

import "github.com/prometheus/client_golang/prometheus"

// metrics count what the server and the router do not see: the calls that are parked.
type metrics struct {
	parked  prometheus.Gauge
	resumes *prometheus.CounterVec
}

// How a request for a parked call ended.
const (
	resumeAsked   = "asked"   // with more questions
	resumeDone    = "done"    // with the end of the call
	resumeRefused = "refused" // it does not continue the call as it stands
	resumeUnknown = "unknown" // the call is not here any more
	resumeLeft    = "left"    // the client went away
)

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		parked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "elicitation_parked",
			Help: "Calls that run at upstreams of older revisions.",
		}),
		resumes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "elicitation_resumes_total",
			Help: "Requests that came back to such a call with answers, by how they ended.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{
		resumeAsked, resumeDone, resumeRefused, resumeUnknown, resumeLeft,
	} {
		m.resumes.WithLabelValues(outcome)
	}
	if registerer == nil {
		return m, nil
	}
	if err := registerer.Register(m.parked); err != nil {
		return nil, err
	}
	if err := registerer.Register(m.resumes); err != nil {
		registerer.Unregister(m.parked)
		return nil, err
	}
	return m, nil
}
