package event

import (
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// Known label values, separated by spaces. Others count as "other".
const (
	kinds = protocol.KindElicitForm + " " + protocol.KindElicitURL + " " +
		protocol.KindCreateMessage + " " + protocol.KindListRoots
	decisions = Accepted + " " + Declined + " " + Cancelled + " " + Unseen
	ways      = "form link text task"
	rules     = Rule(form.RuleRequired + " " + form.RuleType + " " + form.RuleMinimum + " " +
		form.RuleMaximum + " " + form.RuleLength + " " + form.RuleItems + " " + form.RuleEnum + " " +
		form.RuleFormat + " " + form.RulePattern + " " + form.RuleRange + " " + form.RuleShape)
	dropReasons  = "unsolicited malformed expired flow_version"
	flowEnds     = "complete failed refused unseen rounds invalid state_lost replay_handled"
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

const otherLabel = "other"

// Known returns the reason as in logs and labels, or "other".
func (r RefusalReason) Known() RefusalReason {
	if slices.Contains(strings.Fields(refusals), string(r)) {
		return r
	}
	return otherLabel
}

// WaitBuckets, in seconds, covers instant answers and those after a lunch break.
func WaitBuckets() []float64 {
	return []float64{.1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
}

func roundBuckets() []float64 { return []float64{2, 3, 4, 5, 6, 7, 8, 9} }

func stateBuckets() []float64 {
	return []float64{256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
}

// The function samples returns events of each series, and a misconfiguration's HTTP refusals.
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

type counter interface{ add(r row, value float64) }

// A row is a series of an event: a histogram if it has buckets, else a counter.
type row struct {
	name, help    string
	first, second label // no label if the name is empty
	lazy          bool  // most label combinations never occur
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

// Counters, made with [NewCounters], are the metrics of events. They count after [Counters.Bind].
type Counters struct {
	series   []Series
	families map[string]*family
}

type family struct {
	labels int
	known  [2][]string // values per label
	lazy   bool
	vector Vector
	bound  map[[2]string]Instrument // by label values, "" for missing labels
}

// NewCounters returns unbound counters of all events.
func NewCounters() *Counters {
	c := &Counters{families: map[string]*family{}}
	for _, e := range samples() {
		e.countMetrics(declarer{c})
	}
	return c
}

// Series returns the series to register.
func (c *Counters) Series() []Series { return slices.Clone(c.series) }

// Bind gives the counters their vectors, in the order of [Counters.Series]. Series with known
// labels are created at once, so that the first event shows as an increase.
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

// lookUp allocates labels only for unusual values, which peers may have invented.
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

// A declarer creates the families of the rows added to it.
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
