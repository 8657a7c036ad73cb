package event

import (
	"slices"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// The values of labels that are known, with a space between. Anything else is counted as "other".
const (
	kinds = protocol.KindElicitForm + " " + protocol.KindElicitURL + " " +
		protocol.KindCreateMessage + " " + protocol.KindListRoots
	decisions = Accepted + " " + Declined + " " + Cancelled + " " + Unseen
	rules     = RuleRequired + " " + RuleType + " " + RuleMinimum + " " + RuleMaximum + " " +
		RuleLength + " " + RuleItems + " " + RuleEnum + " " + RuleFormat + " " + RulePattern + " " +
		RuleRange + " " + RuleShape
	dropReasons = DropUnsolicited + " " + DropMalformed + " " + DropExpired + " " + DropVersion
	flowEnds    = EndComplete + " " + EndFailed + " " + EndRefused + " " + EndUnseen + " " +
		EndRounds + " " + EndInvalid + " " + EndStateLost + " " + EndReplayed
	capabilities = "elicitation.form elicitation.url sampling sampling.context sampling.tools roots"
	reasons      = ReasonTooLong + " " + ReasonMalformed + " " + ReasonVersion + " " +
		ReasonUnknownKey + " " + ReasonForeignEphemeral + " " + ReasonTampered + " " +
		ReasonExpired + " " + ReasonFlowExpired + " " + ReasonFuture + " " + ReasonPrincipal + " " +
		ReasonMethod + " " + ReasonTarget + " " + ReasonAudience + " " + ReasonArguments + " " +
		ReasonReplayed + " " + ReasonSealer + " " + ReasonGone
	forwardOutcomes = ForwardAnswered + " " + ForwardGone + " " + ForwardUnknown + " " +
		ForwardUnreachable + " " + ForwardAbandoned
	statuses = "200 400 401 403 404 405 406 408 413 415 421 429 502 503 508"
	refusals = RefusedHost + " " + RefusedOrigin + " " + RefusedUnauthenticated + " " +
		RefusedForbidden + " " + RefusedCredentials + " " + RefusedUnverified + " " +
		RefusedHTTPMethod + " " + RefusedMediaType + " " + RefusedAccept + " " + RefusedTooLarge +
		" " + RefusedTooSlow + " " + RefusedMalformed + " " + RefusedVersion + " " +
		RefusedHeaders + " " + RefusedNoSession + " " + RefusedSessionGone + " " + RefusedBatch +
		" " + RefusedEventID + " " + RefusedDuplicateID + " " + RefusedRequests + " " +
		RefusedSessions + " " + RefusedClosing + " " + RefusedOutcomeUnknown + " " +
		RefusedUnreachable + " " + RefusedMisdirected
)

// otherLabel is the label value of everything that is not known.
const otherLabel = "other"

// Known returns the reason as logs and labels have it.
func (r RefusalReason) Known() RefusalReason {
	if slices.Contains(strings.Fields(string(refusals)), string(r)) {
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
		InputRequested{Kinds: make([]protocol.InputKind, 1), StateBytes: 1}, Answered{},
		AnswerInvalid{}, DeclineIgnored{}, FlowEnded{},
		CapabilityRefused{Missing: protocol.ClientCapabilities{Roots: &protocol.RootsCapability{}}},
		HandlerFailed{}, HandlerPanicked{}, ServerBug{}, QuotaExceeded{}, PushFailed{}, CutOff{},
		StoreFailed{}, QuestionReworded{}, SessionEvicted{}, RequestForwarded{}, RequestRefused{}}
	for status, reasons := range map[int][]RefusalReason{
		401: {RefusedUnauthenticated}, 404: {RefusedSessionGone}, 429: {RefusedRequests},
		403: {RefusedHost, RefusedOrigin, RefusedForbidden},
		503: {RefusedSessions, RefusedUnverified},
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
		s := Series{Name: r.name, Help: r.help}
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
