package middleware

import (
	"context"
	"strings"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
)

// A Log writes structured log entries: one for each leg ("mcp.request"), as a middleware, and one
// for each event ("mcp.state_rejected", "mcp.input_required" and so on), as an observer. The
// package comment lists them. Name it in the server's options for both:
//
//	Observer:   log,
//	Middleware: []server.Middleware{log.Wrap, …},
//
// The entry of a leg holds method, target, era, version, principal ("local", "anonymous" or
// "authenticated"), outcome, duration_ms and, if any, waited_ms, code, error message, flow and
// round. duration_ms excludes the waits for users, which waited_ms has. Outcomes are "complete",
// "input_required", "tool_error", "timeout", "cancelled", "panic" or the name of an error code,
// such as "invalid_params". All entries of a request have the same "request",
// [roundtrip.RequestID]; all of a flow have the same "flow" from its first question on. Entries of
// events omit method and version, which the leg's entry has. Events that the leg's entry repeats
// are at debug level: completed flows, and in revision 2026-07-28 questions, unless few rounds are
// left. Where no leg is logged events have all fields.
//
// The text of a handler's plain error ("mcp.handler_failed") or panic is logged: escaped, truncated
// at 512 bytes, and with credentials and strings of the call's arguments, answers and state masked.
// So is the message of a [*protocol.Error], which tells what was wrong; Options.OmitErrors omits
// both. No other entry holds arguments, answers, handler state, requestState, results, or the
// query, fragment or user part of a URI. Peers' texts are escaped and truncated at 256 bytes.
//
// Place it outermost: it logs refusals and busy errors too. Requests that a transport refuses
// before any middleware, because of origin, credentials, session or form, are events
// ("mcp.request_refused") with the reason, the HTTP status, the peer's address and advice. At most
// ten a second are logged; the others are counted once a second ("mcp.requests_refused").
type Log struct {
	sink     event.LogSink // nil: silent
	opts     Options
	fields   event.FieldOptions // of opts
	refusals refusalLog
}

// NewLog returns a log to sink, such as zaplog.New(logger); nil is silent. opts may be nil.
func NewLog(sink event.LogSink, opts *Options) *Log {
	l := &Log{sink: sink, opts: opts.orDefault()}
	l.fields = event.FieldOptions{OmitMessages: l.opts.OmitErrors,
		OmitErrors: l.opts.OmitErrors, Subject: l.opts.Subject}
	return l
}

var _ event.Observer = (*Log)(nil)

// Wrap is the [server.Middleware] that logs each leg.
func (l *Log) Wrap(next server.Handler) server.Handler {
	if l.sink == nil {
		return next
	}
	return func(ctx context.Context, request *server.Request) (result protocol.Result, err error) {
		ctx, leg := withLeg(ctx, request)
		leg.logged = l.sink.Enabled(ctx, l.opts.Level)
		outcome := outcomePanic
		// Deferred, so that a panic is logged before it is recovered.
		defer func() { l.logRequest(ctx, leg, outcome, err) }()
		result, err = next(ctx, request)
		outcome = outcomeOf(ctx, leg, result, err)
		return result, err
	}
}

func (l *Log) logRequest(ctx context.Context, leg *leg, outcome string, err error) {
	work, waited := leg.endLeg()
	level := l.opts.Level
	switch {
	case outcome == outcomeInternalError || outcome == outcomePanic:
		level = max(level, event.LevelWarn)
	case outcome == outcomeComplete && leg.request.Message.Method == protocol.MethodGetTask:
		level = min(level, event.LevelDebug) // events report changes
	}
	if !l.sink.Enabled(ctx, level) {
		return
	}
	request := leg.request
	e := &entry{opts: &l.fields, where: whereOfRequest(request), outcome: outcome,
		principal: event.PrincipalKind(request.Principal), wanted: l.wantedOf(request),
		work: work, waited: waited}
	leg.mu.Lock()
	e.where.Request, e.where.Flow, e.where.Round = leg.requestIDLocked(), leg.flow, leg.round
	e.event = leg.asked
	leg.mu.Unlock()
	if failure, ok := protocol.AsError(err); ok {
		e.failed, e.code = true, failure.Code
		// A plain error's text has its own entry.
		if !l.opts.OmitErrors && failure.Code != protocol.CodeHandlerError {
			e.message = redact.HideURLSecrets(failure.Message)
			if request.Message.Method == protocol.MethodReadResource {
				e.message = event.EscapeTarget(failure.Message) // it is likely to quote the URI
			}
		}
	}
	l.sink.Write(ctx, level, "mcp.request", e)
}

// Observe logs an event of the funnel or the server. Functions with large frames are not inlined:
// Observe runs on the goroutine of the call, whose stack keeps its size during a wait.
func (l *Log) Observe(ctx context.Context, e event.Event) {
	if l.sink == nil {
		return
	}
	if entry, level, name := l.newEntry(ctx, e); entry != nil {
		l.sink.Write(ctx, level, name, entry)
	}
}

// newEntry returns the entry of an event, nil if not logged, and records it in the leg of ctx.
//
//go:noinline
func (l *Log) newEntry(ctx context.Context, happened event.Event) (
	e *entry, level event.Level, name string) {
	level, name = event.EntryOf(happened)
	where, located := event.WhereOf(happened)
	leg := legFrom(ctx)
	if leg != nil && located {
		level = leg.noteEvent(happened, where, level)
	}
	if !l.sink.Enabled(ctx, level) {
		return nil, level, name
	}
	if _, ok := happened.(event.RequestRefused); ok {
		if happened = l.admitRefusal(happened); happened == nil {
			return nil, level, name
		}
	}
	e = &entry{opts: &l.fields, event: event.Compact(happened), where: where, located: located}
	if leg != nil {
		e.where.Request, e.inLeg = leg.RequestID(), leg.logged
	}
	if level == event.LevelError { // its text may quote the request
		opts := l.fields
		opts.Mask = leg.maskText
		e.opts = &opts
	}
	return e, level, name
}

func (l *Log) wantedOf(in *server.Request) *wantedFields {
	var w wantedFields
	if l.opts.Subject != nil && event.PrincipalKind(in.Principal) == "authenticated" {
		w.subject = l.opts.Subject(in.Principal)
	}
	if l.opts.RemoteAddr {
		w.remoteAddr = in.RemoteAddr
	}
	if l.opts.TraceID {
		w.traceID = traceID(in)
	}
	if w == (wantedFields{}) {
		return nil
	}
	return new(w)
}

// traceID returns a request's trace id (W3C Trace Context) or "". A header may be a proxy's.
func traceID(request *server.Request) string {
	if request.Meta != nil && len(request.Meta.Extra) > 0 {
		var parent string
		_ = jsonx.Members([]byte(request.Meta.Extra), func(key, value []byte) error {
			if string(key) == protocol.MetaTraceParent {
				parent, _ = jsonx.Text(value)
			}
			return nil
		})
		if id := traceIDOf(parent); id != "" {
			return id
		}
	}
	return traceIDOf(request.TraceParent)
}

// traceIDOf parses "00-<32 hex digits>-<16 hex digits>-<flags>".
func traceIDOf(parent string) string {
	version, rest, ok := strings.Cut(parent, "-")
	id, rest, more := strings.Cut(rest, "-")
	span, _, _ := strings.Cut(rest, "-")
	if !ok || !more || len(version) != 2 || len(id) != 32 || len(span) != 16 ||
		strings.Trim(version+id+span, "0123456789abcdef") != "" || strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}
