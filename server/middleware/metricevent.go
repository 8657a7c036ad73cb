package middleware

import (
	"context"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// eventMetrics are the metrics that events drive.
type eventMetrics struct {
	inputRequired counterFamily
	answers       map[protocol.InputKind]counterFamily // by outcome
	otherAnswers  counterFamily
	invalid       counterFamily
	flowsEnded    counterFamily
	rejections    counterFamily
	refusals      counterFamily
	pushFailures  counterFamily
	dropped       counterFamily
	quotas        counterFamily
	evictions     prometheus.Counter
	flowRounds    prometheus.Histogram
	humanWait     prometheus.Histogram
	stateBytes    prometheus.Histogram
	httpRefusals  *prometheus.CounterVec
	lineRefusals  counterFamily
	ignored       prometheus.Counter
	failures      prometheus.Counter
	panics        prometheus.Counter
	bugs          prometheus.Counter
}

func newEventMetrics(r *registration) eventMetrics {
	answers, otherAnswers := newAnswers(r)
	return eventMetrics{
		inputRequired: newFamily(r, "input_required_total", "Questions asked.", "kind",
			knownKinds()...),
		answers: answers, otherAnswers: otherAnswers,
		invalid: newFamily(r, "invalid_answers_total",
			"Accepted answers that did not fit the question.", "rule",
			roundtrip.RuleRequired, roundtrip.RuleType, roundtrip.RuleMinimum,
			roundtrip.RuleMaximum, roundtrip.RuleLength,
			roundtrip.RuleItems, roundtrip.RuleEnum, roundtrip.RuleFormat, roundtrip.RulePattern,
			roundtrip.RuleRange, roundtrip.RuleShape),
		flowsEnded: newFamily(r, "flows_ended_total",
			"Flows of more than one leg that came to an end.", "how",
			roundtrip.EndComplete, roundtrip.EndFailed, roundtrip.EndRefused, roundtrip.EndRounds,
			roundtrip.EndInvalid, roundtrip.EndStateLost, roundtrip.EndReplayed),
		rejections: newFamily(r, "state_rejections_total",
			"Requests whose requestState was refused.", "reason", rejectionReasons()...),
		refusals: newFamily(r, "capability_refusals_total",
			"Capabilities that a client lacked to be asked something.", "capability",
			"elicitation.form", "elicitation.url", "sampling", "sampling.context", "sampling.tools",
			"roots"),
		pushFailures: newFamily(r, "push_failures_total",
			"Questions put to a client while a call runs that nobody answered.", "outcome",
			pushRefused, pushTolerated),
		dropped: newFamily(r, "dropped_answers_total",
			"Answers that came with a request and were not used.", "reason",
			roundtrip.DropUnsolicited, roundtrip.DropMalformed, roundtrip.DropExpired,
			roundtrip.DropVersion),
		quotas: newFamily(r, "quota_refusals_total", "Requests refused for want of room.",
			"resource",
			"guard", "store", "subscriptions", "waiting"),
		evictions: r.newCounter("sessions_evicted_total",
			"Sessions of older clients that were ended before they expired, to make room."),
		flowRounds: r.newHistogram("flow_rounds",
			"Legs of a flow that had more than one, the last included.",
			prometheus.LinearBuckets(2, 1, 8)),
		humanWait: r.newHistogram("human_wait_seconds",
			"Time from sending questions to the return of their answers.",
			waitBuckets()),
		stateBytes: r.newHistogram("state_bytes",
			"Size of the requestState that was sent.", prometheus.ExponentialBuckets(256, 2, 9)),
		httpRefusals: newHTTPRefusals(r),
		lineRefusals: newFamily(r, "line_refusals_total",
			"Lines of stdio and other streams that were refused before any middleware.", "reason",
			refusalReasons()...),
		ignored: r.newCounter("ignored_declines_total",
			"Requests that a handler completed without having looked at what a person declined "+
				"or cancelled."),
		failures: r.newCounter("handler_failures_total",
			"Errors of their own that handlers returned."),
		panics: r.newCounter("handler_panics_total",
			"Panics of handlers and middleware that were recovered."),
		bugs: r.newCounter("server_bugs_total",
			"Mistakes of handlers that clients got as internal errors."),
	}
}

// waitBuckets covers people who answer at once and those who come back from
// lunch, in seconds.
func waitBuckets() []float64 {
	return []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
}

func knownKinds() []protocol.InputKind {
	return []protocol.InputKind{protocol.KindElicitForm, protocol.KindElicitURL,
		protocol.KindCreateMessage, protocol.KindListRoots}
}

// newAnswers returns the counters of each kind of question.
func newAnswers(r *registration) (map[protocol.InputKind]counterFamily, counterFamily) {
	vec := r.newCounters("answers_total",
		"What people decided on questions, and clients on those for them.", "kind", "outcome")
	byKind := make(map[protocol.InputKind]counterFamily)
	for _, kind := range knownKinds() {
		byKind[kind] = familyOf(vec.MustCurryWith(prometheus.Labels{"kind": string(kind)}),
			answerOutcomes())
	}
	return byKind, familyOf(vec.MustCurryWith(prometheus.Labels{"kind": otherLabel}),
		answerOutcomes())
}

func answerOutcomes() []string {
	return []string{roundtrip.Accepted.String(), roundtrip.Declined.String(),
		roundtrip.Cancelled.String()}
}

// rejectionReasons lists why a state can be refused.
func rejectionReasons() []roundtrip.Reason {
	return []roundtrip.Reason{
		roundtrip.ReasonTooLong, roundtrip.ReasonMalformed, roundtrip.ReasonVersion,
		roundtrip.ReasonUnknownKey,
		roundtrip.ReasonForeignEphemeral, roundtrip.ReasonTampered, roundtrip.ReasonExpired,
		roundtrip.ReasonFlowExpired, roundtrip.ReasonFuture, roundtrip.ReasonPrincipal,
		roundtrip.ReasonMethod,
		roundtrip.ReasonTarget, roundtrip.ReasonAudience, roundtrip.ReasonArguments,
		roundtrip.ReasonReplayed,
		roundtrip.ReasonSealer, roundtrip.ReasonGone,
	}
}

var _ roundtrip.Observer = (*Metrics)(nil)

// Observe counts an event of the funnel or the server. Events of unknown types
// are passed over.
func (m *Metrics) Observe(ctx context.Context, event roundtrip.Event) {
	c := &m.events
	switch e := event.(type) {
	case roundtrip.StateRejected:
		c.rejections.countValue(string(e.Reason))
	case roundtrip.AnswersDropped:
		for _, d := range e.Dropped {
			c.dropped.countValue(string(d.Reason))
		}
	case roundtrip.Resumed:
		c.humanWait.Observe(e.Waited.Seconds())
	case roundtrip.InputRequested:
		for _, kind := range e.Kinds {
			c.inputRequired.countValue(string(kind))
		}
		if e.StateBytes > 0 {
			c.stateBytes.Observe(float64(e.StateBytes))
		}
	case roundtrip.FlowEnded:
		c.flowsEnded.countValue(string(e.How))
		// A replay ends nothing: its flow was counted when it ended.
		if e.How != roundtrip.EndReplayed {
			c.flowRounds.Observe(float64(e.Legs))
		}
	case roundtrip.CapabilityRefused:
		c.countMissing(e.Missing)
	case roundtrip.PushFailed:
		c.pushFailures.countValue(pushOutcome(e))
	case roundtrip.RequestRefused:
		c.countRefused(e)
	case roundtrip.QuotaExceeded:
		c.quotas.countValue(e.Resource)
	case roundtrip.WaitBegan:
		if !m.wrapsRequests.Load() {
			m.waiting.Inc()
		}
	case roundtrip.WaitEnded:
		if !m.wrapsRequests.Load() {
			m.waiting.Dec()
			m.legs.seriesOfWait(e.Where).Observe(e.Waited.Seconds())
		}
	case roundtrip.SessionEvicted:
		c.evictions.Inc()
	case roundtrip.Answered:
		f, ok := c.answers[e.Kind]
		if !ok {
			f = c.otherAnswers
		}
		f.countValue(e.Outcome.String())
	case roundtrip.AnswerInvalid:
		c.invalid.countValue(string(e.Rule))
	case roundtrip.DeclineIgnored:
		c.ignored.Inc()
	case roundtrip.HandlerFailed:
		if !isAbandoned(ctx, e) {
			c.failures.Inc()
		}
	case roundtrip.HandlerPanicked:
		c.panics.Inc()
	case roundtrip.ServerBug:
		c.bugs.Inc()
	}
}

// countMissing counts each capability that is missing.
func (c *eventMetrics) countMissing(missing protocol.ClientCapabilities) {
	if e := missing.Elicitation; e != nil {
		c.refusals.countValueIf(e.Form, "elicitation.form")
		c.refusals.countValueIf(e.URL, "elicitation.url")
	}
	if s := missing.Sampling; s != nil {
		c.refusals.countValueIf(!s.Context && !s.Tools, "sampling")
		c.refusals.countValueIf(s.Context, "sampling.context")
		c.refusals.countValueIf(s.Tools, "sampling.tools")
	}
	c.refusals.countValueIf(missing.Roots != nil, "roots")
	c.refusals.countValueIf(len(missing.Experimental)+len(missing.Extensions) > 0, otherLabel)
}

// A counterFamily is a set of counters with one label, whose values are known when
// it is made. They start at zero, so that the first event of a kind shows as an
// increase.
type counterFamily struct {
	known map[string]prometheus.Counter
	other prometheus.Counter
}

func newFamily[L ~string](r *registration, name, help, label string, values ...L) counterFamily {
	return familyOf(r.newCounters(name, help, label), values)
}

// familyOf is a family of the only label of vec.
func familyOf[L ~string](vec *prometheus.CounterVec, values []L) counterFamily {
	f := counterFamily{make(map[string]prometheus.Counter, len(values)),
		vec.WithLabelValues(otherLabel)}
	for _, v := range values {
		f.known[string(v)] = vec.WithLabelValues(string(v))
	}
	return f
}

func (f counterFamily) countValue(value string) {
	c, ok := f.known[value]
	if !ok {
		c = f.other
	}
	c.Inc()
}

func (f counterFamily) countValueIf(condition bool, value string) {
	if condition {
		f.countValue(value)
	}
}

// refusalReasons lists why a transport can refuse a request.
func refusalReasons() []roundtrip.RefusalReason {
	return []roundtrip.RefusalReason{
		roundtrip.RefusedHost, roundtrip.RefusedOrigin, roundtrip.RefusedUnauthenticated,
		roundtrip.RefusedForbidden,
		roundtrip.RefusedHTTPMethod, roundtrip.RefusedMediaType, roundtrip.RefusedAccept,
		roundtrip.RefusedTooLarge,
		roundtrip.RefusedTooSlow, roundtrip.RefusedMalformed, roundtrip.RefusedVersion,
		roundtrip.RefusedHeaders,
		roundtrip.RefusedNoSession, roundtrip.RefusedSessionGone, roundtrip.RefusedBatch,
		roundtrip.RefusedEventID,
		roundtrip.RefusedDuplicateID, roundtrip.RefusedRequests, roundtrip.RefusedSessions,
		roundtrip.RefusedClosing,
	}
}

// refusalReason is the reason as logs and labels have it.
func refusalReason(reason roundtrip.RefusalReason) string {
	if slices.Contains(refusalReasons(), reason) {
		return string(reason)
	}
	return otherLabel
}

// newHTTPRefusals starts the counters at zero that rise first when something is
// wrong with the configuration. The others appear when they are needed: most
// pairs of a status and a reason never do.
func newHTTPRefusals(r *registration) *prometheus.CounterVec {
	vec := r.newCounters("http_refusals_total", "HTTP requests refused before any middleware.",
		"status", "reason")
	for reason, status := range map[roundtrip.RefusalReason]string{
		roundtrip.RefusedHost: "403", roundtrip.RefusedOrigin: "403",
		roundtrip.RefusedForbidden:       "403",
		roundtrip.RefusedUnauthenticated: "401", roundtrip.RefusedSessionGone: "404",
		roundtrip.RefusedRequests: "429", roundtrip.RefusedSessions: "503",
	} {
		vec.WithLabelValues(status, string(reason))
	}
	return vec
}

// countRefused counts a request that no middleware has seen.
func (c *eventMetrics) countRefused(e roundtrip.RequestRefused) {
	if e.Status == 0 {
		c.lineRefusals.countValue(string(e.Reason))
		return
	}
	c.httpRefusals.WithLabelValues(refusalStatus(e.Status), refusalReason(e.Reason)).Inc()
}

// refusalStatus keeps the label to the statuses that a transport refuses with.
func refusalStatus(status int) string {
	switch status {
	case 200, 400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 503:
		return strconv.Itoa(status)
	}
	return otherLabel
}
