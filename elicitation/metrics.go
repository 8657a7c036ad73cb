package elicitation

import (
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The type metrics has the counters of one or more routers, see "Metrics" in doc.go.
type metrics struct {
	requests, timeouts, pending, durations event.Instrument
	completed                              func(protocol.ElicitAction) event.Instrument
	errors, rejections                     func(Reason) event.Instrument
	cancels                                func(string) event.Instrument
}

const actionUnseen protocol.ElicitAction = "unseen"

// newMetrics registers all series at once, so that a first increase shows. sink may be nil.
func newMetrics(sink event.MetricSink) (*metrics, error) {
	vectors, err := event.RegisterSeries(sink, []event.Series{
		{Name: "elicitation_requests_total", Help: "Elicitations created."},
		{Name: "elicitation_timeout_total", Help: "Elicitations that timed out."},
		{Name: "elicitation_pending", Help: "Elicitations that are pending.", Gauge: true},
		{Name: "elicitation_duration_seconds", // from programs to people who take ten minutes
			Buckets: []float64{.01, .05, .1, .5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300, 600},
			Help:    "Time from the creation of an elicitation to its end."},
		{Name: "elicitation_completed_total", Labels: []string{"action"},
			Help: "Elicitations that the client answered."},
		{Name: "elicitation_errors_total", Labels: []string{"reason"},
			Help: "Elicitations that failed."},
		{Name: "elicitation_cancelled_total", Labels: []string{"by"},
			Help: "Elicitations that were withdrawn."},
		{Name: "elicitation_rejected_total", Labels: []string{"reason"},
			Help: "Elicitations that were refused and never created."},
	})
	if err != nil {
		return nil, err
	}
	return &metrics{
		requests: vectors[0](), timeouts: vectors[1](), pending: vectors[2](),
		durations: vectors[3](),
		completed: event.KeepSeries(vectors[4], protocol.ActionAccept, protocol.ActionDecline,
			protocol.ActionCancel, actionUnseen),
		errors: event.KeepSeries(vectors[5], ReasonDelivery, ReasonClientError, ReasonInvalidReply,
			ReasonInvalidContent),
		cancels: event.KeepSeries(vectors[6], byUpstream, byClient, byCallEnd, bySession,
			byShutdown),
		rejections: event.KeepSeries(vectors[7], ReasonNoSession, ReasonAmbiguous,
			ReasonCapability, ReasonMode, ReasonInvalidQuestion, ReasonTooLarge, ReasonSecret,
			ReasonURLPolicy, ReasonCapacity, ReasonShutdown, ReasonDelivery),
	}, nil
}

func (m *metrics) countOutcome(out outcome, took time.Duration) {
	switch out.state {
	case eventCompleted:
		action := out.result.Action
		if out.unseen {
			action = actionUnseen
		}
		m.completed(action).Add(1)
	case eventTimeout:
		m.timeouts.Add(1)
	case eventCancelled:
		m.cancels(out.err.By).Add(1)
	default:
		m.errors(out.err.Reason).Add(1)
	}
	m.durations.Add(took.Seconds())
}
