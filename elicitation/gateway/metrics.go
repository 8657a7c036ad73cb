package gateway

import (
	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// metrics count what the server and the router do not see: the calls that are parked.
type metrics struct {
	parked  event.Instrument
	resumes func(outcome string) event.Instrument
}

func newMetrics(sink event.MetricSink) (*metrics, error) {
	vectors, err := event.RegisterSeries(sink, []event.Series{
		{Name: "elicitation_parked", Gauge: true,
			Help: "Calls that run at upstreams of older revisions."},
		{Name: "elicitation_resumes_total", Labels: []string{"outcome"},
			Help: "Requests that came back to such a call with answers, by how they ended."},
	})
	if err != nil {
		return nil, err
	}
	return &metrics{parked: vectors[0](), resumes: event.KeepSeries(vectors[1], relay.ResumeAsked,
		relay.ResumeDone, relay.ResumeRefused, relay.ResumeUnknown, relay.ResumeLeft)}, nil
}
