package middleware

import (
	"context"
	"time"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// LogOptions configure a [Log]. The zero value works.
type LogOptions struct {
	// Level is that of the entry for each leg, info by default. Legs that end
	// in an internal error are logged as warnings whatever it is.
	Level zapcore.Level
	// OmitMessages leaves the messages of JSON-RPC errors out. Set it when
	// handlers quote what they were told in the protocol errors they return.
	OmitMessages bool
	// PanicValues logs the values of panics as text. Without it the texts of
	// run-time errors are logged, and of other values the type: a program may
	// panic with anything, an answer included.
	PanicValues bool
}

// A Log writes structured log entries with zap: one for each leg ("mcp.request"),
// as a middleware, and one for each event ("mcp.state_rejected",
// "mcp.input_required" and so on), as an observer. Name it in the server's
// options for both:
//
//	Observer:   log,
//	Middleware: []server.Middleware{log.Wrap, …},
//
// The entry of a leg holds method, target, era, version, principal ("local",
// "anonymous" or "authenticated"), outcome, duration_ms and, where there are
// any, waited_ms, the code and the error message, the flow and the round.
// duration_ms is the time for work; the time for which the call waited for people
// is waited_ms and not part of it. Outcomes are
// "complete", "input_required", "tool_error", "timeout", "cancelled", "panic"
// or the name of an error code, such as "invalid_params".
//
// No entry holds arguments, answers, author's state, requestState, results, the
// text of a tool's or handler's plain error, or the query, fragment or user
// part of a URI. The message of a [*protocol.Error] is logged, since it names
// what was wrong with a request; see LogOptions.OmitMessages. What peers can
// choose is escaped and cut at 256 bytes.
//
// Place it outermost: it logs refusals and busy signals too. What a transport
// refuses before any middleware, because of its origin, its credentials, its
// session or its form, is an event ("mcp.request_refused") with the reason, the
// HTTP status, the address of the peer and what to do about it. At most ten of
// them a second are logged; how many more there were is told once a second
// ("mcp.requests_refused").
type Log struct {
	logger   *zap.Logger
	opts     LogOptions
	silent   bool
	refusals refusalLog
}

// NewLog returns a log that writes to logger; nil is silent. opts may be nil.
func NewLog(logger *zap.Logger, opts *LogOptions) *Log {
	l := &Log{logger: logger}
	if logger == nil {
		l.logger, l.silent = zap.NewNop(), true
	}
	if opts != nil {
		l.opts = *opts
	}
	l.refusals.logger = l.logger
	return l
}

var _ roundtrip.Observer = (*Log)(nil)

// Wrap is the [server.Middleware] that logs each leg.
func (l *Log) Wrap(next server.Handler) server.Handler {
	if l.silent {
		return next
	}
	return func(ctx context.Context, in *server.Incoming) (result protocol.Result, err error) {
		ctx, leg := withLeg(ctx, in)
		outcome := outcomePanic
		// Deferred, so that a panic is logged on its way to who recovers it.
		defer func() { l.request(leg, outcome, err) }()
		result, err = next(ctx, in)
		outcome = outcomeOf(ctx, leg, result, err)
		return result, err
	}
}

// request writes the entry of one leg.
func (l *Log) request(leg *leg, outcome string, err error) {
	work, waited := leg.end()
	level := l.opts.Level
	if outcome == outcomeInternalError || outcome == outcomePanic {
		level = max(level, zapcore.WarnLevel)
	}
	entry := l.logger.Check(level, "mcp.request")
	if entry == nil {
		return
	}
	in := leg.in
	fields := make([]zap.Field, 0, 13)
	fields = append(fields,
		zap.String("method", safe(in.Request.Method, maxText)),
		zap.String("target", target(in.Target)),
		zap.Stringer("era", in.Version.Era()),
		zap.String("version", safe(string(in.Version), maxText)),
		zap.String("principal", principalKind(in.Principal)),
		zap.String("outcome", outcome),
		zap.Float64("duration_ms", milliseconds(work)),
	)
	if waited > 0 {
		fields = append(fields, zap.Float64("waited_ms", milliseconds(waited)))
	}
	if flow, round := leg.position(); round > 0 {
		fields = append(fields, zap.Int("round", round))
		if flow != "" {
			fields = append(fields, zap.String("flow", safe(flow, maxText)))
		}
	}
	if e, ok := protocol.AsError(err); ok {
		fields = append(fields, zap.Int64("code", e.Code))
		// A plain error of a prompt or resource is a tool's error text by
		// another name, and may quote what the person said.
		if !l.opts.OmitMessages && e.Code != protocol.CodeHandlerError {
			fields = append(fields, zap.String("error", errorMessage(in.Request.Method, e.Message)))
		}
	}
	entry.Write(fields...)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func principalKind(p roundtrip.Principal) string {
	switch {
	case p == roundtrip.Local():
		return "local"
	case p.Anonymous():
		return "anonymous"
	}
	return "authenticated"
}
