package middleware

import (
	"context"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
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
	cutOff        counterFamily
	storeFailures counterFamily
	reworded      prometheus.Counter
	evictions     prometheus.Counter
	forwarded     counterFamily
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
			"Accepted answers that did not fit the question.", "rule", answerRules()...),
		flowsEnded: newFamily(r, "flows_ended_total",
			"Flows of more than one leg that came to an end.", "how",
			event.EndComplete, event.EndFailed, event.EndRefused, event.EndUnseen,
			event.EndRounds, event.EndInvalid, event.EndStateLost, event.EndReplayed),
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
			event.DropUnsolicited, event.DropMalformed, event.DropExpired,
			event.DropVersion),
		quotas: newFamily(r, "quota_refusals_total",
			"Requests refused for want of room, and those that lost a long _meta.", "resource",
			"guard", "store", "subscriptions", "waiting", "meta"),
		cutOff: newFamily(r, "cut_off_total",
			"Requests that ended before they had a result.", "retriable", "true", "false"),
		storeFailures: newFamily(r, "store_failures_total",
			"Operations of a guard or a store of states that failed.", "operation",
			"claim", "renew", "commit", "release", "read", "write"),
		reworded: r.newCounter("reworded_questions_total",
			"Answers to a question that another version of the application asked differently."),
		evictions: r.newCounter("sessions_evicted_total",
			"Sessions of older clients that were ended before they expired, to make room."),
		forwarded: newFamily(r, "forwarded_requests_total",
			"Requests of older clients that were passed on to the replica of their session.",
			"outcome", event.ForwardAnswered, event.ForwardGone, event.ForwardUnknown,
			event.ForwardUnreachable, event.ForwardAbandoned),
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

// answerRules lists what answers can break.
func answerRules() []event.Rule {
	return []event.Rule{
		event.RuleRequired, event.RuleType, event.RuleMinimum, event.RuleMaximum,
		event.RuleLength, event.RuleItems, event.RuleEnum, event.RuleFormat, event.RulePattern,
		event.RuleRange, event.RuleShape,
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
		roundtrip.Cancelled.String(), roundtrip.Unseen.String()}
}

// rejectionReasons lists why a state can be refused.
func rejectionReasons() []event.Reason {
	return []event.Reason{
		event.ReasonTooLong, event.ReasonMalformed, event.ReasonVersion,
		event.ReasonUnknownKey,
		event.ReasonForeignEphemeral, event.ReasonTampered, event.ReasonExpired,
		event.ReasonFlowExpired, event.ReasonFuture, event.ReasonPrincipal,
		event.ReasonMethod,
		event.ReasonTarget, event.ReasonAudience, event.ReasonArguments,
		event.ReasonReplayed,
		event.ReasonSealer, event.ReasonGone,
	}
}

var _ event.Observer = (*Metrics)(nil)

// Observe counts an event of the funnel or the server. Events of unknown types
// are passed over.
func (m *Metrics) Observe(ctx context.Context, e event.Event) {
	c := &m.events
	switch e := e.(type) {
	case event.StateRejected:
		c.rejections.countValue(string(e.Reason))
	case event.AnswersDropped:
		for _, d := range e.Dropped {
			c.dropped.countValue(string(d.Reason))
		}
	case event.Resumed:
		c.humanWait.Observe(e.Waited.Seconds())
	case event.InputRequested:
		c.countAsked(e)
	case event.FlowEnded:
		c.countFlowEnd(e)
	case event.CapabilityRefused:
		c.countMissing(e.Missing)
	case event.PushFailed:
		c.pushFailures.countValue(pushOutcome(e))
	case event.RequestRefused:
		c.countRefused(e)
	case event.QuotaExceeded:
		c.quotas.countValue(e.Resource)
	case event.CutOff, event.StoreFailed, event.QuestionReworded:
		c.countSurroundings(e)
	case event.WaitBegan, event.WaitEnded:
		m.observeWait(e)
	case event.SessionEvicted:
		c.evictions.Inc()
	case event.RequestForwarded:
		c.forwarded.countValue(string(e.Outcome))
	case event.Answered:
		c.countAnswer(e)
	case event.AnswerInvalid:
		c.invalid.countValue(string(e.Rule))
	case event.DeclineIgnored:
		c.ignored.Inc()
	case event.HandlerFailed:
		if !isAbandoned(ctx, e) {
			c.failures.Inc()
		}
	case event.HandlerPanicked:
		c.panics.Inc()
	case event.ServerBug:
		c.bugs.Inc()
	}
}

// countSurroundings counts what happens to flows from outside. It is not inlined, for the stack of
// calls that wait.
//
//go:noinline
func (c *eventMetrics) countSurroundings(e event.Event) {
	switch e := e.(type) {
	case event.CutOff:
		c.cutOff.countValue(strconv.FormatBool(e.Retriable))
	case event.StoreFailed:
		c.storeFailures.countValue(e.Operation)
	case event.QuestionReworded:
		c.reworded.Inc()
	}
}

// observeWait counts the beginning and the end of a wait, where no middleware of m does.
func (m *Metrics) observeWait(e event.Event) {
	if m.wrapsRequests.Load() {
		return
	}
	switch e := e.(type) {
	case event.WaitBegan:
		m.waiting.Inc()
	case event.WaitEnded:
		m.waiting.Dec()
		m.legs.seriesOfWait(e.Where).Observe(e.Waited.Seconds())
	}
}

// countAsked counts the questions of a round.
func (c *eventMetrics) countAsked(e event.InputRequested) {
	for _, kind := range e.Kinds {
		c.inputRequired.countValue(string(kind))
	}
	if e.StateBytes > 0 {
		c.stateBytes.Observe(float64(e.StateBytes))
	}
}

// countFlowEnd counts the end of a flow. A replay ends nothing: its flow was counted when it
// ended.
func (c *eventMetrics) countFlowEnd(e event.FlowEnded) {
	c.flowsEnded.countValue(string(e.How))
	if e.How != event.EndReplayed {
		c.flowRounds.Observe(float64(e.Legs))
	}
}

// countAnswer counts what a person decided.
func (c *eventMetrics) countAnswer(e event.Answered) {
	f, ok := c.answers[e.Kind]
	if !ok {
		f = c.otherAnswers
	}
	f.countValue(string(e.Decision))
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
func refusalReasons() []event.RefusalReason {
	return []event.RefusalReason{
		event.RefusedHost, event.RefusedOrigin, event.RefusedUnauthenticated,
		event.RefusedForbidden, event.RefusedCredentials, event.RefusedUnverified,
		event.RefusedHTTPMethod, event.RefusedMediaType, event.RefusedAccept,
		event.RefusedTooLarge,
		event.RefusedTooSlow, event.RefusedMalformed, event.RefusedVersion,
		event.RefusedHeaders,
		event.RefusedNoSession, event.RefusedSessionGone, event.RefusedBatch,
		event.RefusedEventID,
		event.RefusedDuplicateID, event.RefusedRequests, event.RefusedSessions,
		event.RefusedClosing, event.RefusedOutcomeUnknown, event.RefusedUnreachable,
		event.RefusedMisdirected,
	}
}

// refusalReason is the reason as logs and labels have it.
func refusalReason(reason event.RefusalReason) string {
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
	for reason, status := range map[event.RefusalReason]string{
		event.RefusedHost: "403", event.RefusedOrigin: "403",
		event.RefusedForbidden:       "403",
		event.RefusedUnauthenticated: "401", event.RefusedSessionGone: "404",
		event.RefusedRequests: "429", event.RefusedSessions: "503",
		event.RefusedUnverified: "503",
	} {
		vec.WithLabelValues(status, string(reason))
	}
	return vec
}

// countRefused counts a request that no middleware has seen.
func (c *eventMetrics) countRefused(e event.RequestRefused) {
	if e.Status == 0 {
		c.lineRefusals.countValue(string(e.Reason))
		return
	}
	c.httpRefusals.WithLabelValues(refusalStatus(e.Status), refusalReason(e.Reason)).Inc()
}

// refusalStatus keeps the label to the statuses that a transport refuses with.
func refusalStatus(status int) string {
	switch status {
	case 200, 400, 401, 403, 404, 405, 406, 408, 413, 415, 421, 429, 502, 503, 508:
		return strconv.Itoa(status)
	}
	return otherLabel
}
