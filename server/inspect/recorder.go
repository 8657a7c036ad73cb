package inspect

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The bounds of what is kept. Ten thousand flows a second go through them as well: the rings turn
// faster, and hold no more.
const (
	maxFlows    = 1000
	maxEntries  = 16 // of a flow: four rounds, mostly
	maxRefusals = 100
	// maxEntryBytes is how much of the fields of one entry is kept.
	maxEntryBytes = 512
)

// A recorder keeps what happened last. Its memory is used again: once its rings are full it
// allocates next to nothing.
type recorder struct {
	mu   sync.Mutex // held for a look-up: never while an entry is written
	byID map[string]*flow
	ring [maxFlows]*flow
	next int // of the ring: the oldest

	refusing sync.Mutex
	refusals [maxRefusals]refusal
	refused  int // how many there were in all

	options event.FieldOptions // none
}

// A flow is what is known of one flow. Its id belongs to the mutex of the recorder.
type flow struct {
	id string

	mu                      sync.Mutex
	method, target, version string
	state                   string
	began, changed          time.Time
	round, count            int // count is of entries: those that are gone included
	entries                 [maxEntries]entry
}

// An entry is one event, as a log has it.
type entry struct {
	encoder
	at    time.Time
	name  string
	round int
}

// A refusal is an entry about something that was refused or failed.
type refusal struct {
	entry
	method, target, flow string
}

// Observe implements [event.Observer]: it keeps what a log would say of the event.
func (p *Page) Observe(_ context.Context, e event.Event) {
	r := &p.events
	where, located := event.WhereOf(e)
	if f := r.lockFlow(&where, e); located && f != nil {
		f.addEntry(e, where.Round, &r.options)
		f.mu.Unlock()
	}
	if isRefusal(e) {
		r.addRefusal(e, &where)
	}
}

// lockFlow returns the flow of an event, locked, nil for an event of none. A new one takes the
// place of the oldest. In a session a flow is one request, and has no other id while it asks.
func (r *recorder) lockFlow(where *event.Where, e event.Event) *flow {
	id, begins := where.Flow, true
	if where.Version.Era() != protocol.Modern {
		id = where.Request
		switch e.(type) {
		case event.InputRequested, event.WaitBegan:
		default:
			begins = false
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.byID[id]
	if f != nil {
		f.mu.Lock()
		return f
	}
	if id == "" || !begins {
		return nil
	}
	if f = r.ring[r.next]; f == nil {
		f = &flow{}
		r.ring[r.next] = f
	}
	r.next = (r.next + 1) % maxFlows
	delete(r.byID, f.id)
	r.byID[id] = f
	f.mu.Lock() // those who hold it write an entry, and take no other lock
	f.id, f.began, f.count, f.state = id, time.Now(), 0, ""
	f.method, f.version = where.Method, string(where.Version)
	f.target = event.EscapeTarget(where.Target)
	return f
}

func (f *flow) addEntry(e event.Event, round int, options *event.FieldOptions) {
	added := &f.entries[f.count%maxEntries]
	f.count++
	added.write(e, round, options)
	f.changed, f.round = added.at, max(round, 1)
	switch e := e.(type) {
	case event.InputRequested:
		f.state = stateAsks
	case event.WaitBegan:
		f.state = stateWaits
	case event.Resumed, event.WaitEnded:
		f.state = stateRuns
	case event.Answered:
		// In a session that is the last that is heard of most flows.
		f.state = string(e.Decision)
	case event.FlowEnded:
		f.state = string(e.How)
	}
}

// The states of a flow that has not ended.
const (
	stateAsks  = "asks"
	stateWaits = "waits"
	stateRuns  = "runs"
)

func (r *recorder) addRefusal(e event.Event, where *event.Where) {
	r.refusing.Lock()
	defer r.refusing.Unlock()
	added := &r.refusals[r.refused%maxRefusals]
	r.refused++
	added.write(e, where.Round, &r.options)
	added.method = event.EscapeTarget(where.Method)
	added.target = event.EscapeTarget(where.Target)
	added.flow = where.Flow
}

// isRefusal reports whether somebody did not get what they asked for.
func isRefusal(e event.Event) bool {
	switch e := e.(type) {
	case event.RequestRefused, event.StateRejected, event.CapabilityRefused, event.QuotaExceeded,
		event.StoreFailed, event.ServerBug, event.HandlerPanicked, event.AnswerInvalid:
		return true
	case event.HandlerFailed:
		return !e.Abandoned
	case event.PushFailed:
		return !e.Tolerated
	case event.FlowEnded:
		return e.How != event.EndComplete && e.How != event.EndReplayed
	}
	return false
}

func (a *entry) write(e event.Event, round int, options *event.FieldOptions) {
	a.at, a.round, a.text, a.items = time.Now(), round, a.text[:0], a.items[:0]
	_, a.name = event.EntryOf(e)
	event.AddFields(e, event.Fields{Encoder: a, FieldOptions: options})
}

// An encoder writes fields as text, and leaves out what does not fit.
type encoder struct{ text, items []byte }

func (e *encoder) add(name string) bool {
	if len(e.text)+len(name) >= maxEntryBytes {
		return false
	}
	if len(e.text) > 0 {
		e.text = append(e.text, ' ')
	}
	e.text = append(append(e.text, name...), '=')
	return true
}

// AddString implements [event.Encoder], as the others do.
func (e *encoder) AddString(name, value string) {
	if value != "" && e.add(name) {
		e.text = append(e.text, value[:min(len(value), maxEntryBytes-len(e.text))]...)
	}
}

func (e *encoder) AddInt64(name string, value int64) {
	if e.add(name) {
		e.text = strconv.AppendInt(e.text, value, 10)
	}
}

func (e *encoder) AddFloat64(name string, value float64) {
	if e.add(name) {
		e.text = strconv.AppendFloat(e.text, value, 'f', -1, 64)
	}
}

func (e *encoder) AddBool(name string, value bool) {
	if e.add(name) {
		e.text = strconv.AppendBool(e.text, value)
	}
}

func (e *encoder) AppendItem(value string) {
	if len(e.items)+len(value) < maxEntryBytes {
		e.items = append(append(e.items, value...), ", "...)
	}
}

func (e *encoder) AddItems(name string) {
	items := bytes.TrimSuffix(e.items, []byte(", "))
	if e.items = e.items[:0]; len(items) > 0 && e.add(name) {
		e.text = append(e.text, items[:min(len(items), max(maxEntryBytes-len(e.text), 0))]...)
	}
}

// A flowView is a flow as the page shows it.
type flowView struct {
	ID, Method, Target, Version, State string
	Began, Changed                     time.Time
	Took                               time.Duration
	Round, Earlier                     int
	Waits                              bool
	Entries                            []entryView
}

type entryView struct {
	At                         time.Time
	Name, Text                 string
	Round                      int
	Method, Target, Flow, Link string // of a refusal
}

func (a *entry) view() entryView {
	return entryView{At: a.at, Name: a.name, Round: a.round,
		Text: string(bytes.ToValidUTF8(a.text, []byte("…")))}
}

// flows returns what is kept, the newest first; the entries of only one flow, where an id is given.
func (r *recorder) flows(id string) []flowView {
	r.mu.Lock()
	list := make([]*flow, 0, maxFlows)
	for i := range maxFlows {
		if f := r.ring[(r.next+maxFlows-1-i)%maxFlows]; f != nil && (id == "" || f.id == id) {
			list = append(list, f)
		}
	}
	r.mu.Unlock()
	views := make([]flowView, 0, len(list))
	for _, f := range list {
		if v := f.view(id != ""); id == "" || v.ID == id { // its place may have been taken
			views = append(views, v)
		}
	}
	return views
}

func (f *flow) view(whole bool) flowView {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := flowView{ID: f.id, Method: f.method, Target: f.target, Version: f.version, State: f.state,
		Began: f.began, Changed: f.changed, Took: f.changed.Sub(f.began), Round: f.round,
		Earlier: max(0, f.count-maxEntries), Waits: f.state == stateAsks || f.state == stateWaits}
	if v.Waits {
		v.Took = time.Since(f.began)
	}
	if whole {
		for i := v.Earlier; i < f.count; i++ {
			v.Entries = append(v.Entries, f.entries[i%maxEntries].view())
		}
	}
	return v
}

// list returns the refusals, the newest first.
func (r *recorder) list() []entryView {
	r.refusing.Lock()
	defer r.refusing.Unlock()
	var views []entryView
	for i := max(0, r.refused-maxRefusals); i < r.refused; i++ {
		a := &r.refusals[i%maxRefusals]
		v := a.view()
		v.Method, v.Target, v.Flow = a.method, a.target, a.flow
		views = append(views, v)
	}
	slices.Reverse(views)
	return views
}
