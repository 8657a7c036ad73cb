package gateway

import (
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The type metrics covers parked calls and upstream failures, which server and router do not see.
type metrics struct {
	parked   event.Instrument
	resumes  func(outcome string) event.Instrument
	failures map[string]func(why failureKind) event.Instrument // by upstream
}

func newMetrics(sink event.MetricSink, upstreams []Upstream) (*metrics, error) {
	vectors, err := event.RegisterSeries(sink, []event.Series{
		{Name: "elicitation_parked", Gauge: true,
			Help: "Calls that run at upstreams of older revisions."},
		{Name: "elicitation_resumes_total", Labels: []string{"outcome"},
			Help: "Requests that resumed such a call with answers, by outcome."},
		{Name: "elicitation_upstream_failures_total", Labels: []string{"upstream", "why"},
			Help: "Calls that failed at an upstream, and attempts to read its lists that failed."},
	})
	if err != nil {
		return nil, err
	}
	m := &metrics{parked: vectors[0](), failures: map[string]func(failureKind) event.Instrument{},
		resumes: event.KeepSeries(vectors[1], relay.ResumeAsked, relay.ResumeDone,
			relay.ResumeRefused, relay.ResumeUnknown, relay.ResumeLeft)}
	for _, u := range upstreams {
		m.failures[u.Name] = event.KeepSeries(func(why ...string) event.Instrument {
			return vectors[2](u.Name, why[0])
		}, failureKinds()...)
	}
	return m, nil
}
