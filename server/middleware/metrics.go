package middleware

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// Metrics counts and times requests, as a middleware, and counts events, as an observer. Name it in
// the server's options for both:
//
//	Observer:   metrics,
//	Middleware: []server.Middleware{metrics.Wrap, …},
//
// As a middleware, for each leg:
//
//	rondo_requests_total{method,era,outcome}
//	rondo_request_duration_seconds{method,era}
//	rondo_request_waiting_seconds{method,era}
//	rondo_requests_in_flight
//	rondo_requests_waiting
//
// Durations exclude waits for users, as in calls of legacy sessions; these are observed separately,
// for calls that waited. Waiting requests are also in flight. Without Wrap the metrics of waiting
// requests come from events, and each wait is observed.
//
// With Options.Targets the first three also have the label target. And once:
//
//	rondo_build_info{version,goversion,revision}
//
// As an observer:
//
//	rondo_input_required_total{kind}           questions asked
//	rondo_flows_ended_total{how}               flows of more than one leg
//	rondo_flow_rounds                          rounds of such a flow
//	rondo_human_wait_seconds                   from questions to answers
//	rondo_state_bytes                          size of requestState sent
//	rondo_state_rejections_total{reason}
//	rondo_capability_refusals_total{capability}
//	rondo_push_failures_total{outcome}         failed requests to clients
//	rondo_dropped_answers_total{reason}
//	rondo_http_refusals_total{status,reason}   before any middleware
//	rondo_line_refusals_total{reason}          the same on line streams
//	rondo_quota_refusals_total{resource}       guard, store, subscriptions, waiting, meta, tasks
//	rondo_cut_off_total{retriable}             requests that ended without a result
//	rondo_store_failures_total{operation}      of a guard or a store
//	rondo_tasks{status}                        in this process: running, queued
//	rondo_task_queue_seconds                   time in the queue
//	rondo_tasks_begun_total
//	rondo_tasks_taken_over_total               from processes that ended
//	rondo_tasks_ended_total{how}               died: too many processes ended
//	rondo_visits_total{how}                    browsers at the page of a visit
//	rondo_reworded_questions_total             by versions of the application
//	rondo_sessions_evicted_total
//	rondo_forwarded_requests_total{outcome}    to the replica that owns the session
//	rondo_answers_total{kind,outcome}          decisions of users
//	rondo_form_answers_total{way}              decisions on forms: form, link, text, task
//	rondo_invalid_answers_total{rule}          accepted but invalid
//	rondo_ignored_declines_total               by completed flows
//	rondo_handler_failures_total               without gone clients
//	rondo_handler_panics_total
//	rondo_server_bugs_total
//
// The sum of rondo_requests_total is the number of answered requests, counting each leg of a flow,
// without those that a transport refuses before any middleware. Outcomes are named as in [Log].
//
// Every label has a fixed set of values: unknown methods, reasons and codes are counted as "other".
// Tools and resources are labels only if listed, principals never: peers could invent any number.
//
// Place it below [Log] and above [Recover].
type Metrics struct {
	legs          legSeries
	inFlight      event.Instrument
	waiting       event.Instrument
	wrapsRequests atomic.Bool // Wrap is used, and observes waits
	events        *event.Counters
}

// NewMetrics creates the metrics in sink, such as prom.New(registerer); nil disables them. Servers
// in the process with the same sink and options share the series.
//
// It fails if a name is taken, naming it, and then registers nothing. opts may be nil.
func NewMetrics(sink event.MetricSink, opts *Options) (*Metrics, error) {
	o := opts.orDefault()
	legs, events := seriesOfLegs(o), event.NewCounters()
	table := slices.Concat(legs, events.Series())
	for i := range table {
		table[i].Name = "rondo_" + table[i].Name
	}
	vectors, err := event.RegisterSeries(sink, table)
	if err != nil {
		return nil, fmt.Errorf("middleware: metrics: %w", err)
	}
	vectors[seriesBuild](buildInfo()...)
	m := &Metrics{inFlight: vectors[seriesInFlight](), waiting: vectors[seriesWaiting](),
		events: events}
	events.Bind(vectors[len(legs):])
	m.legs.init(o.Targets, vectors)
	return m, nil
}

// Wrap is the [server.Middleware] that counts and times each leg.
func (m *Metrics) Wrap(next server.Handler) server.Handler {
	m.wrapsRequests.Store(true)
	return func(ctx context.Context, request *server.Request) (result protocol.Result, err error) {
		ctx, leg := withLeg(ctx, request)
		outcome := outcomePanic
		m.inFlight.Add(1)
		leg.mu.Lock()
		leg.waiting = m.waiting
		leg.mu.Unlock()
		defer func() {
			work, waited := leg.endLeg()
			m.inFlight.Add(-1)
			m.legs.countLeg(request, outcome, work, waited)
		}()
		result, err = next(ctx, request)
		outcome = outcomeOf(ctx, leg, result, err)
		return result, err
	}
}

var _ event.Observer = (*Metrics)(nil)

// Observe counts an event of the funnel or the server.
func (m *Metrics) Observe(_ context.Context, e event.Event) {
	switch e.(type) {
	case event.WaitBegan, event.WaitEnded:
		m.observeWait(e)
	default:
		m.events.Count(e)
	}
}

// observeWait counts the start and end of a wait, unless Wrap does.
//
//go:noinline
func (m *Metrics) observeWait(e event.Event) {
	if m.wrapsRequests.Load() {
		return
	}
	switch e := e.(type) {
	case event.WaitBegan:
		m.waiting.Add(1)
	case event.WaitEnded:
		m.waiting.Add(-1)
		m.legs.observeWait(legLabels{methodLabel(e.Method), "", m.legs.targetLabel(e.Target),
			e.Version.Era()}, e.Waited)
	}
}
