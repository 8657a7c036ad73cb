package inspect

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/inspection"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The limits of recorded data, at any load.
const (
	maxFlows         = 1000
	maxEntries       = 16 // of a flow: four rounds, mostly
	maxRefusals      = 100
	maxEntryBytes    = 512   // of the fields of one entry
	maxName, maxKeys = 64, 4 // bytes of a name, and keys of questions
)

// A recorder keeps the latest events.
type recorder struct {
	encoders sync.Pool // of *encoder

	mu       sync.Mutex // not held while an entry is encoded
	byID     map[string]*flow
	ring     [maxFlows]*flow
	next     int // index of the oldest in the ring
	refusals [maxRefusals]entry
	refused  int // refusals in all
}

// A flow has the recorded data of one flow. The template reads copies.
type flow struct {
	ID, Method, Target, Version, State string
	Who, Client, Keys                  string    // Keys belong to the last questions
	Asked                              time.Time // when these were put
	Late                               bool      // these can no longer be answered
	Began, Changed                     time.Time
	Round, Count                       int // Count is the number of entries, including dropped ones
	ring                               [maxEntries]entry
}

// An entry is an event as in the log.
type entry struct {
	At                               time.Time
	Name, Text, Method, Target, Flow string
	Round                            int
}

// The states of an unfinished flow.
const stateAsks, stateWaits, stateRuns = "asks", "waits", "runs"

const lateTime = 10 * time.Minute // how long an expired question is still listed

// Waits reports whether the flow waits for a user.
func (f *flow) Waits() bool { return f.State == stateAsks || f.State == stateWaits }

// Took returns the flow's duration so far.
func (f *flow) Took() time.Duration {
	if f.Waits() {
		return time.Since(f.Began)
	}
	return f.Changed.Sub(f.Began)
}

// Entries returns the recorded entries, oldest first.
func (f *flow) Entries() (list []entry) {
	for i := max(0, f.Count-maxEntries); i < f.Count; i++ {
		list = append(list, f.ring[i%maxEntries])
	}
	return list
}

// Observe implements [event.Observer].
func (p *Page) Observe(_ context.Context, e event.Event) {
	r := &p.events
	where, _ := event.WhereOf(e)
	added := r.encode(e, &where)
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.flowLocked(&added, &where, e); f != nil {
		kept := added
		kept.Method, kept.Target, kept.Flow = "", "", "" // the flow has them
		f.ring[f.Count%maxEntries] = kept
		f.Count, f.Changed, f.Round = f.Count+1, added.At, where.Round
		switch e := e.(type) {
		case event.InputRequested:
			f.State, f.Asked = stateAsks, added.At
			f.Keys = keysOf(e.Questions)
			if e.Principal != nil {
				f.Who = errtext.Mark(inspection.NameOf(*e.Principal), maxName)
			}
			if e.Client != nil {
				f.Client = errtext.Mark(e.Client.Name, maxName)
			}
		case event.WaitBegan:
			f.State = stateWaits
		case event.Resumed, event.WaitEnded:
			f.State = stateRuns
		case event.Answered: // in a session this is the last event of most flows
			f.State = string(e.Decision)
		case event.FlowEnded:
			f.State = string(e.How)
		}
	}
	if event.IsRefusal(e) {
		r.refusals[r.refused%maxRefusals] = added
		r.refused++
	}
}

// keysOf lists the first keys of questions.
func keysOf(questions []event.AskedQuestion) string {
	var list []string
	for _, q := range questions[:min(len(questions), maxKeys)] {
		list = append(list, errtext.Mark(q.Key, maxName))
	}
	if len(questions) > maxKeys {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// withoutText omits an error's text, which only the log can mask.
var withoutText = event.FieldOptions{Mask: func(string) string { return "see the log" }}

func (r *recorder) encode(e event.Event, where *event.Where) entry {
	enc, _ := r.encoders.Get().(*encoder)
	if enc == nil {
		enc = &encoder{}
	}
	defer r.encoders.Put(enc)
	enc.text, enc.items = enc.text[:0], enc.items[:0]
	_, name := event.EntryOf(e)
	options := &enc.options
	if _, bug := e.(event.ServerBug); bug { // may quote the request, unmasked
		options = &withoutText
	}
	event.AddFields(e, event.Fields{Encoder: enc, FieldOptions: options})
	return entry{At: time.Now(), Name: name, Text: strings.ToValidUTF8(string(enc.text), "…"),
		Method: errtext.Clip(where.Method, 64), Target: event.EscapeTarget(where.Target),
		Flow: flowID(where), Round: where.Round}
}

// flowID returns the id of a flow. In a session a flow is one request.
func flowID(where *event.Where) string {
	if where.Version.Era() == protocol.Modern {
		return where.Flow
	}
	return where.Request
}

// flowLocked returns the flow of an event, or nil. A new flow replaces the oldest.
func (r *recorder) flowLocked(added *entry, where *event.Where, e event.Event) *flow {
	if f := r.byID[added.Flow]; f != nil {
		return f
	}
	begins := where.Version.Era() == protocol.Modern
	switch e.(type) {
	case event.InputRequested, event.WaitBegan:
		begins = true
	}
	if added.Flow == "" || !begins {
		return nil
	}
	f := r.ring[r.next]
	if f == nil {
		f = &flow{}
		r.ring[r.next] = f
	}
	r.next = (r.next + 1) % maxFlows
	delete(r.byID, f.ID)
	r.byID[added.Flow] = f
	*f = flow{ID: added.Flow, Method: added.Method, Target: added.Target,
		Version: string(where.Version), Began: added.At}
	return f
}

// The method flows returns copies of the flows, newest first: all, or the one with that id.
func (r *recorder) flows(id string) (list []*flow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range maxFlows {
		if f := r.ring[(r.next+maxFlows-1-i)%maxFlows]; f != nil && (id == "" || f.ID == id) {
			list = append(list, new(*f))
		}
	}
	return list
}

// listWaiting returns waiting flows, newest first: late after ttl, omitted after lateTime more.
func (r *recorder) listWaiting(ttl time.Duration) []*flow {
	return slices.DeleteFunc(r.flows(""), func(f *flow) bool {
		past := time.Since(f.Asked) - ttl
		f.Late = past > 0
		return !f.Waits() || past > lateTime
	})
}

// A filter selects flows by parts of names, ignoring case, and by state. Empty fields match all.
type filter struct{ Who, Tool, State string }

func (c *filter) matchesFlow(f *flow) bool {
	has := func(text, part string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(part))
	}
	return (has(f.Who, c.Who) || has(f.Client, c.Who)) && has(f.Target, c.Tool) &&
		(c.State == "" || c.State == f.State)
}

// listRefusals returns the refusals, newest first.
func (r *recorder) listRefusals() []entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Clone(r.refusals[:min(r.refused, maxRefusals)])
	slices.SortStableFunc(list, func(a, b entry) int { return b.At.Compare(a.At) })
	return list
}

// An encoder writes fields as text and truncates them.
type encoder struct {
	text, items []byte
	options     event.FieldOptions // the zero value
}

func (e *encoder) AddString(name, value string) {
	if room := maxEntryBytes - len(e.text) - len(name) - 2; room > 0 && value != "" {
		e.text = append(append(append(e.text, name...), '='), value[:min(room, len(value))]...)
		e.text = append(e.text, ' ')
	}
}

func (e *encoder) AddInt64(name string, v int64) { e.AddString(name, strconv.FormatInt(v, 10)) }
func (e *encoder) AddBool(name string, v bool)   { e.AddString(name, strconv.FormatBool(v)) }
func (e *encoder) AddFloat64(name string, v float64) {
	e.AddString(name, strconv.FormatFloat(v, 'f', -1, 64))
}

func (e *encoder) AppendItem(value string) {
	if len(e.items)+len(value) < maxEntryBytes {
		e.items = append(append(e.items, value...), ", "...)
	}
}

func (e *encoder) AddItems(name string) {
	e.AddString(name, strings.TrimSuffix(string(e.items), ", "))
	e.items = e.items[:0]
}
