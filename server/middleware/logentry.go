package middleware

import (
	"context"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// The entries of this file are those of every flow. Each is one field that writes
// all of its members itself: a dozen fields of zap are a kilobyte, for each entry.
// They hold nothing of the request but strings, since a core may keep them. The
// field lies in the entry, so that both are one piece of memory.

// requestEntry is the entry of a leg.
type requestEntry struct {
	request, method, target  string
	version                  protocol.Version
	principal, outcome, flow string
	work, waited             time.Duration
	round                    int
	failed                   bool
	code                     int64         // of the error
	message                  string        // of the error
	wanted                   *wantedFields // nil: none
	asked                    *askedFields  // nil: it asked nothing
	field                    [1]zap.Field  // the entry itself
}

// wantedFields are the fields of the entry of a leg that options ask for.
type wantedFields struct{ subject, remoteAddr, traceID string }

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (e *requestEntry) MarshalLogObject(out zapcore.ObjectEncoder) error {
	out.AddString("request", redact.EscapeText(e.request, maxKey))
	out.AddString("method", redact.EscapeText(e.method, maxText))
	out.AddString("target", escapeTarget(e.target))
	out.AddString("era", e.version.Era().String())
	out.AddString("version", redact.EscapeText(string(e.version), maxText))
	out.AddString("principal", e.principal)
	if e.wanted != nil {
		addNonEmpty(out, "subject", e.wanted.subject)
		addNonEmpty(out, "remote_addr", e.wanted.remoteAddr)
		addNonEmpty(out, "trace_id", e.wanted.traceID)
	}
	out.AddString("outcome", e.outcome)
	out.AddFloat64("duration_ms", milliseconds(e.work))
	if e.waited > 0 {
		out.AddFloat64("waited_ms", milliseconds(e.waited))
	}
	if e.round > 0 {
		out.AddInt("round", e.round)
		addNonEmpty(out, "flow", e.flow)
	}
	if e.failed {
		out.AddInt64("code", e.code)
		addNonEmpty(out, "error", e.message)
	}
	if e.asked != nil {
		return e.asked.addTo(out)
	}
	return nil
}

func addNonEmpty(out zapcore.ObjectEncoder, key, value string) {
	if value != "" {
		out.AddString(key, redact.EscapeText(value, maxText))
	}
}

// An eventHead holds the first fields of the entry of an event.
type eventHead struct {
	event.Where
	inLegEntry bool // method and version stand in the entry of the leg
}

// headOf returns the head of the entry of an event that is observed under ctx.
func headOf(ctx context.Context, where event.Where) eventHead {
	h := eventHead{Where: where}
	if leg := legFrom(ctx); leg != nil {
		h.Request, h.inLegEntry = leg.RequestID(), leg.logged
	}
	return h
}

// addTo writes the head.
func (h *eventHead) addTo(out zapcore.ObjectEncoder) {
	addNonEmpty(out, "request", h.Request)
	if !h.inLegEntry {
		out.AddString("method", redact.EscapeText(h.Method, maxText))
		out.AddString("version", redact.EscapeText(string(h.Version), maxText))
	}
	out.AddString("target", escapeTarget(h.Target))
	if h.Round > 0 {
		out.AddInt("round", h.Round)
	}
	addNonEmpty(out, "flow", h.Flow)
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (h *eventHead) MarshalLogObject(out zapcore.ObjectEncoder) error {
	h.addTo(out)
	return nil
}

// askedFields are the fields about the questions of a leg.
type askedFields struct {
	kinds      inputKinds
	questions  askedQuestions
	stateBytes int
	roundsLeft int
}

// addTo writes the fields.
func (f *askedFields) addTo(out zapcore.ObjectEncoder) error {
	if err := out.AddArray("kinds", &f.kinds); err != nil { // pointers need no memory
		return err
	}
	if err := out.AddArray("questions", &f.questions); err != nil {
		return err
	}
	out.AddInt("state_bytes", f.stateBytes)
	out.AddInt("rounds_left", f.roundsLeft)
	return nil
}

// inputRequiredEntry is the entry of a question.
type inputRequiredEntry struct {
	eventHead
	askedFields
	field [1]zap.Field // the entry itself
}

// newInputRequiredEntry is not inlined: its variables would be on the stack of a call that is
// about to wait, below an encoder.
//
//go:noinline
func newInputRequiredEntry(ctx context.Context, happened event.Event) *inputRequiredEntry {
	e := happened.(event.InputRequested)
	entry := &inputRequiredEntry{eventHead: headOf(ctx, e.Where),
		askedFields: askedFields{e.Kinds, e.Questions, e.StateBytes, e.RoundsLeft}}
	entry.field[0] = zap.Inline(entry)
	return entry
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (e *inputRequiredEntry) MarshalLogObject(out zapcore.ObjectEncoder) error {
	e.eventHead.addTo(out)
	return e.askedFields.addTo(out)
}

// An answeredEntry is the entry of an answer.
type answeredEntry struct {
	eventHead
	key, kind, outcome, principal, subject string
	question                               event.QuestionDigest
	waited                                 time.Duration
	unsolicited                            bool
	field                                  [1]zap.Field // the entry itself
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (e *answeredEntry) MarshalLogObject(out zapcore.ObjectEncoder) error {
	e.eventHead.addTo(out)
	out.AddString("key", redact.EscapeText(e.key, maxKey))
	out.AddString("kind", redact.EscapeText(e.kind, maxKey))
	out.AddString("outcome", e.outcome)
	out.AddString("principal", e.principal)
	addNonEmpty(out, "subject", e.subject)
	if e.unsolicited {
		out.AddBool("unsolicited", true)
		return nil
	}
	out.AddString("question", e.question.String())
	out.AddFloat64("waited_ms", milliseconds(e.waited))
	return nil
}
