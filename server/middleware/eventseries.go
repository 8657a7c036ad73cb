package middleware

import (
	"slices"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// seriesOfEvents is the table of the metrics that events drive: help, and each label with the
// values that it may have. Anything else is counted as "other".
func seriesOfEvents() []series {
	return slices.Concat(seriesOfQuestions(), seriesOfRefusals(), []series{
		newSeries("cut_off_total", "Requests that ended before they had a result.",
			values("retriable", "true", "false")),
		newSeries("store_failures_total",
			"Operations of a guard or a store of states that failed.",
			values("operation", "claim", "renew", "commit", "release", "read", "write")),
		newSeries("sessions_evicted_total",
			"Sessions of older clients that were ended before they expired, to make room."),
		newSeries("forwarded_requests_total",
			"Requests of older clients that were passed on to the replica of their session.",
			values("outcome", event.ForwardAnswered, event.ForwardGone, event.ForwardUnknown,
				event.ForwardUnreachable, event.ForwardAbandoned)),
		newSeries("handler_failures_total", "Errors of their own that handlers returned."),
		newSeries("handler_panics_total",
			"Panics of handlers and middleware that were recovered."),
		newSeries("server_bugs_total",
			"Mistakes of handlers that clients got as internal errors."),
		newHistogram("flow_rounds", "Legs of a flow that had more than one, the last included.",
			2, 3, 4, 5, 6, 7, 8, 9),
		newHistogram("human_wait_seconds",
			"Time from sending questions to the return of their answers.", waitBuckets()...),
		newHistogram("state_bytes", "Size of the requestState that was sent.",
			256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536),
	})
}

func seriesOfQuestions() []series {
	kind := values("kind", protocol.KindElicitForm, protocol.KindElicitURL,
		protocol.KindCreateMessage, protocol.KindListRoots)
	return []series{
		newSeries("input_required_total", "Questions asked.", kind),
		newSeries("answers_total",
			"What people decided on questions, and clients on those for them.", kind,
			values("outcome", event.Accepted, event.Declined, event.Cancelled, event.Unseen)),
		newSeries("invalid_answers_total", "Accepted answers that did not fit the question.",
			values("rule", event.RuleRequired, event.RuleType, event.RuleMinimum,
				event.RuleMaximum, event.RuleLength, event.RuleItems, event.RuleEnum,
				event.RuleFormat, event.RulePattern, event.RuleRange, event.RuleShape)),
		newSeries("dropped_answers_total",
			"Answers that came with a request and were not used.",
			values("reason", event.DropUnsolicited, event.DropMalformed, event.DropExpired,
				event.DropVersion)),
		newSeries("ignored_declines_total", "Requests that a handler completed without having "+
			"looked at what a person declined or cancelled."),
		newSeries("flows_ended_total", "Flows of more than one leg that came to an end.",
			values("how", event.EndComplete, event.EndFailed, event.EndRefused, event.EndUnseen,
				event.EndRounds, event.EndInvalid, event.EndStateLost, event.EndReplayed)),
		newSeries("capability_refusals_total",
			"Capabilities that a client lacked to be asked something.",
			values("capability", "elicitation.form", "elicitation.url", "sampling",
				"sampling.context", "sampling.tools", "roots")),
		newSeries("push_failures_total",
			"Questions put to a client while a call runs that nobody answered.",
			values("outcome", "refused", "tolerated")),
		newSeries("reworded_questions_total",
			"Answers to a question that another version of the application asked differently."),
	}
}

func seriesOfRefusals() []series {
	reason := values("reason", refusalReasons()...)
	http := newSeries("http_refusals_total", "HTTP requests refused before any middleware.",
		values("status", "200", "400", "401", "403", "404", "405", "406", "408", "413", "415",
			"421", "429", "502", "503", "508"), reason)
	http.lazy = true
	return []series{
		http,
		newSeries("line_refusals_total",
			"Lines of stdio and other streams that were refused before any middleware.", reason),
		newSeries("quota_refusals_total",
			"Requests refused for want of room, and those that lost a long _meta.",
			values("resource", "guard", "store", "subscriptions", "waiting", "meta")),
		newSeries("state_rejections_total", "Requests whose requestState was refused.",
			values("reason", event.ReasonTooLong, event.ReasonMalformed, event.ReasonVersion,
				event.ReasonUnknownKey, event.ReasonForeignEphemeral, event.ReasonTampered,
				event.ReasonExpired, event.ReasonFlowExpired, event.ReasonFuture,
				event.ReasonPrincipal, event.ReasonMethod, event.ReasonTarget,
				event.ReasonAudience, event.ReasonArguments, event.ReasonReplayed,
				event.ReasonSealer, event.ReasonGone)),
	}
}

// earlyRefusals are the series of refusals over HTTP that rise first when something is wrong with
// the configuration. They start at zero. The others appear when they are needed: most pairs of
// a status and a reason never do.
func earlyRefusals() map[event.RefusalReason]string {
	return map[event.RefusalReason]string{
		event.RefusedHost: "403", event.RefusedOrigin: "403", event.RefusedForbidden: "403",
		event.RefusedUnauthenticated: "401", event.RefusedSessionGone: "404",
		event.RefusedRequests: "429", event.RefusedSessions: "503",
		event.RefusedUnverified: "503",
	}
}

// refusalReasons lists why a transport can refuse a request.
func refusalReasons() []event.RefusalReason {
	return []event.RefusalReason{
		event.RefusedHost, event.RefusedOrigin, event.RefusedUnauthenticated,
		event.RefusedForbidden, event.RefusedCredentials, event.RefusedUnverified,
		event.RefusedHTTPMethod, event.RefusedMediaType, event.RefusedAccept,
		event.RefusedTooLarge, event.RefusedTooSlow, event.RefusedMalformed,
		event.RefusedVersion, event.RefusedHeaders, event.RefusedNoSession,
		event.RefusedSessionGone, event.RefusedBatch, event.RefusedEventID,
		event.RefusedDuplicateID, event.RefusedRequests, event.RefusedSessions,
		event.RefusedClosing, event.RefusedOutcomeUnknown, event.RefusedUnreachable,
		event.RefusedMisdirected,
	}
}

// knownRefusal returns the reason as logs and labels have it.
func knownRefusal(reason event.RefusalReason) event.RefusalReason {
	if slices.Contains(refusalReasons(), reason) {
		return reason
	}
	return otherLabel
}

// waitBuckets covers people who answer at once and those who come back from
// lunch, in seconds.
func waitBuckets() []float64 {
	return []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
}

// A label is the name of a label, and the values that are known.
type label struct {
	name   string
	values []string
}

func values[V ~string](name string, known ...V) label {
	l := label{name: name, values: []string{otherLabel}}
	for _, v := range known {
		l.values = append(l.values, string(v))
	}
	return l
}

// A series is a row of a table of metrics that events drive.
type series struct {
	event.Series
	values [][]string // of each label, those that are known from the start
	lazy   bool       // most combinations of them never occur
}

func newHistogram(name, help string, buckets ...float64) series {
	return series{Series: event.Series{Name: name, Help: help, Buckets: buckets}}
}

// newSeries returns a row for a counter.
func newSeries(name, help string, labels ...label) series {
	s := series{Series: event.Series{Name: name, Help: help}}
	for _, l := range labels {
		s.Labels, s.values = append(s.Labels, l.name), append(s.values, l.values)
	}
	return s
}

// eventSeries are the series that events are counted in, by name.
type eventSeries map[string]*family

// A family is the series of one name.
type family struct {
	values [][]string
	vector event.Vector
	known  map[[2]string]event.Instrument // by labels; "" for those that it does not have
}

// newEventSeries makes all series whose labels are known, so that the first event of a kind
// shows as an increase.
func newEventSeries(table []series, vectors []event.Vector) eventSeries {
	all := make(eventSeries, len(table))
	for i, s := range table {
		f := &family{values: s.values, vector: vectors[i], known: map[[2]string]event.Instrument{}}
		all[s.Name] = f
		if s.lazy {
			for reason, status := range earlyRefusals() {
				f.bind([2]string{status, string(reason)})
			}
			continue
		}
		first, second := []string{""}, []string{""}
		if len(s.values) > 0 {
			first = s.values[0]
		}
		if len(s.values) > 1 {
			second = s.values[1]
		}
		for _, a := range first {
			for _, b := range second {
				f.bind([2]string{a, b})
			}
		}
	}
	return all
}

func (f *family) bind(labels [2]string) {
	f.known[labels] = f.vector(labels[:len(f.values)]...)
}

// instrument returns the series of labels, whose values peers may have made up.
func (f *family) instrument(labels [2]string) event.Instrument {
	if known, ok := f.known[labels]; ok {
		return known
	}
	return f.lookUp(labels)
}

// lookUp makes labels on the heap, which nearly all events do not need.
func (f *family) lookUp(labels [2]string) event.Instrument {
	for i, values := range f.values {
		if !slices.Contains(values, labels[i]) {
			labels[i] = otherLabel
		}
	}
	if known, ok := f.known[labels]; ok {
		return known
	}
	return f.vector(labels[:len(f.values)]...)
}

// Count implements [event.Counter].
func (s eventSeries) Count(name, label, second string) {
	s[name].instrument([2]string{label, second}).Add(1)
}

// Sample implements [event.Counter].
func (s eventSeries) Sample(name string, value float64) {
	s[name].instrument([2]string{}).Add(value)
}
