package middleware

import (
	"time"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// An entry has the fields of an event or a leg. Sinks may keep it, so it holds only strings of the
// request; an error's entry holds the request, to mask its secrets.
type entry struct {
	opts  *event.FieldOptions
	event event.Event // in a leg's entry: its question, unless logged separately
	write func(event.Fields)
	where event.Where
	outcome,
	principal,
	message string // of an error
	work, waited time.Duration
	code         int64         // of an error
	wanted       *wantedFields // nil: none
	located      bool          // where describes the event
	inLeg        bool          // method and version stand in the entry of the leg
	failed       bool          // the leg failed, with code and message
}

type wantedFields struct{ subject, remoteAddr, traceID string }

func (e *entry) AddTo(out event.Encoder) {
	e.addHead(event.Fields{Encoder: out, FieldOptions: e.opts})
	if e.event != nil {
		event.AddFields(e.event, event.Fields{Encoder: out, FieldOptions: e.opts})
	}
}

// addHead writes the fields before those of an event. Not inlined, see [Log.Observe].
//
//go:noinline
func (e *entry) addHead(f event.Fields) {
	switch {
	case e.write != nil:
		e.write(f)
	case e.outcome != "":
		e.addLeg(f)
	case e.located:
		f.AddWhere(&e.where, e.inLeg)
	}
}

func (e *entry) addLeg(f event.Fields) {
	f.AddText("request", e.where.Request)
	f.AddText("method", e.where.Method)
	f.AddTarget(e.where.Target)
	f.AddString("era", e.where.Version.Era().String())
	f.AddText("version", string(e.where.Version))
	f.AddString("principal", e.principal)
	if e.wanted != nil {
		f.AddNonEmpty("subject", e.wanted.subject)
		f.AddNonEmpty("remote_addr", e.wanted.remoteAddr)
		f.AddNonEmpty("trace_id", e.wanted.traceID)
	}
	f.AddString("outcome", e.outcome)
	f.AddMilliseconds("duration_ms", e.work)
	if e.waited > 0 {
		f.AddMilliseconds("waited_ms", e.waited)
	}
	if e.where.Round > 0 {
		f.AddInt64("round", int64(e.where.Round))
		f.AddNonEmpty("flow", e.where.Flow)
	}
	if e.failed {
		f.AddInt64("code", e.code)
		f.AddNonEmpty("error", e.message)
	}
}
