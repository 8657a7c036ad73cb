package event

import (
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// The values of labels that are known, with a space between. Anything else is counted as "other".
const (
	kinds = protocol.KindElicitForm + " " + protocol.KindElicitURL + " " +
		protocol.KindCreateMessage + " " + protocol.KindListRoots
	decisions = Accepted + " " + Declined + " " + Cancelled + " " + Unseen
	ways      = "form link text task"
	rules     = Rule(form.RuleRequired + " " + form.RuleType + " " + form.RuleMinimum + " " +
		form.RuleMaximum + " " + form.RuleLength + " " + form.RuleItems + " " + form.RuleEnum + " " +
		form.RuleFormat + " " + form.RulePattern + " " + form.RuleRange + " " + form.RuleShape)
	dropReasons  = "unsolicited malformed expired flow_version"
	flowEnds     = "complete failed refused unseen rounds invalid state_lost replay_handled link"
	capabilities = "elicitation.form elicitation.url sampling sampling.context sampling.tools roots"
	reasons      = "too_long malformed unknown_format_version unknown_key foreign_ephemeral " +
		"authentication_failed expired flow_expired issued_in_the_future other_principal " +
		"other_method other_target other_audience other_arguments replayed refused_by_sealer " +
		"not_in_store"
	visitWays       = "shown finished stranger token origin host over late size method store"
	forwardOutcomes = "answered owner_gone outcome_unknown unreachable abandoned"
	statuses        = "200 400 401 403 404 405 406 408 413 415 421 429 502 503 508"
	refusals        = "host origin unauthenticated forbidden malformed_credentials unverified " +
		"http_method media_type accept too_large too_slow malformed version header_mismatch " +
		"no_session session_gone batch event_id duplicate_id too_many_requests " +
		"too_many_sessions closing outcome_unknown unreachable misdirected"
)

// otherLabel is the label value of everything that is not known.
const otherLabel = "other"

// Known returns the reason as logs and labels have it.
func (r RefusalReason) Known() RefusalReason {
	if slices.Contains(strings.Fields(refusals), string(r)) {
		return r
	}
	return otherLabel
}

// WaitBuckets covers people who answer at once and those who come back from lunch, in seconds.
func WaitBuckets() []float64 {
	return []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
}

func roundBuckets() []float64 { return []float64{2, 3, 4, 5, 6, 7, 8, 9} }

func stateBuckets() []float64 {
	return []float64{256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
}

// samples returns events that drive each series. Those of refusals over HTTP are the ones that rise
// first when something is wrong with the configuration.
func samples() []Event {
	list := []Event{StateRejected{}, AnswersDropped{Dropped: make([]Dropped, 1)}, Resumed{},
		InputRequested{Kinds: make([]protocol.InputKind, 1), StateBytes: 1}, Answered{Way: words.WayForm},
		AnswerInvalid{}, DeclineIgnored{}, FlowEnded{},
		CapabilityRefused{Missing: protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}},
		HandlerFailed{}, HandlerPanicked{}, ServerBug{}, QuotaExceeded{}, PushFailed{}, CutOff{},
		StoreFailed{}, TaskChanged{Change: "queued"}, TaskChanged{Change: "dequeued"},
		TaskChanged{Change: "begun"}, TaskChanged{Change: "taken_over"},
		TaskChanged{Change: "completed"}, VisitServed{}, QuestionReworded{}, SessionEvicted{},
		RequestForwarded{}, RequestRefused{}}
	for status, reasons := range map[int][]RefusalReason{
		401: {words.RefusedUnauthenticated}, 404: {words.RefusedSessionGone},
		429: {words.RefusedRequests},
		403: {words.RefusedHost, words.RefusedOrigin, words.RefusedForbidden},
		503: {words.RefusedSessions, words.RefusedUnverified},
	} {
		for _, reason := range reasons {
			list = append(list, RequestRefused{Status: status, Reason: reason})
		}
	}
	return list
}

// A counter takes what events count.
type counter interface{ add(r row, value float64) }

// A row is a series that an event drives: a counter, unless it has buckets.
type row struct {
	name, help    string
	first, second label // an empty name: none
	lazy          bool  // most combinations of its labels never occur
	gauge         bool
	buckets       func() []float64
}

type label struct{ name, value, known string }

func oneOf[V ~string](name string, value, known V) label {
	return label{name, string(value), string(known)}
}

func (l label) values() []string {
	if l.name == "" {
		return []string{""}
	}
	return append(strings.Fields(l.known), otherLabel)
}

// Counters are the metrics that events drive. They are made with [NewCounters] and count from
// [Counters.Bind] on.
type Counters struct {
	series   []Series
	families map[string]*family
}

// A family is the series of one name.
type family struct {
	labels int
	known  [2][]string // the values of each label
	lazy   bool
	vector Vector
	bound  map[[2]string]Instrument // by labels; "" for those that it does not have
}

// NewCounters returns the counters of all events.
func NewCounters() *Counters {
	c := &Counters{families: map[string]*family{}}
	for _, e := range samples() {
		e.countMetrics(declarer{c})
	}
	return c
}

// Series returns what is to be registered.
func (c *Counters) Series() []Series { return slices.Clone(c.series) }

// Bind gives the counters the vectors of their series, in the order of [Counters.Series]. Series
// whose labels are known are made, so that the first event of a kind shows as an increase.
func (c *Counters) Bind(vectors []Vector) {
	for i, s := range c.series {
		f := c.families[s.Name]
		f.vector = vectors[i]
		if f.lazy {
			for labels := range f.bound {
				f.bind(labels)
			}
			continue
		}
		for _, first := range f.known[0] {
			for _, second := range f.known[1] {
				f.bind([2]string{first, second})
			}
		}
	}
}

func (f *family) bind(labels [2]string) { f.bound[labels] = f.vector(labels[:f.labels]...) }

// Count counts an event.
func (c *Counters) Count(e Event) { e.countMetrics(c) }

func (c *Counters) add(r row, value float64) {
	f := c.families[r.name]
	labels := [2]string{r.first.value, r.second.value}
	instrument, ok := f.bound[labels]
	if !ok {
		instrument = f.lookUp(labels)
	}
	instrument.Add(value)
}

// lookUp makes labels on the heap, which nearly all events do not need. Peers may have made their
// values up.
func (f *family) lookUp(labels [2]string) Instrument {
	for i, known := range f.known {
		if !slices.Contains(known, labels[i]) {
			labels[i] = otherLabel
		}
	}
	if instrument, ok := f.bound[labels]; ok {
		return instrument
	}
	return f.vector(labels[:f.labels]...)
}

// A declarer makes the families of the rows that are added to it.
type declarer struct{ *Counters }

func (d declarer) add(r row, _ float64) {
	f := d.families[r.name]
	if f == nil {
		s := Series{Name: r.name, Help: r.help, Gauge: r.gauge}
		if r.buckets != nil {
			s.Buckets = r.buckets()
		}
		for _, l := range []label{r.first, r.second} {
			if l.name != "" {
				s.Labels = append(s.Labels, l.name)
			}
		}
		f = &family{labels: len(s.Labels), lazy: r.lazy, bound: map[[2]string]Instrument{},
			known: [2][]string{r.first.values(), r.second.values()}}
		d.series, d.families[r.name] = append(d.series, s), f
	}
	if f.lazy {
		f.bound[[2]string{r.first.value, r.second.value}] = nil
	}
}
