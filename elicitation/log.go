package elicitation

import (
	"context"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A logEntry is an event as a log entry. Its message is the event's name, and so is
// the field event: where the encoder calls the message of an entry "message", the field
// of that name hides it. The first seven fields are always there.
type logEntry questionEvent

// writeLog writes the log entry of an event.
func (r *Router) writeLog(ctx context.Context, e *questionEvent) {
	if level := e.logLevel(); r.opts.Log.Enabled(ctx, level) {
		r.opts.Log.Write(ctx, level, string(e.Kind), (*logEntry)(e))
	}
}

// AddTo implements [event.Entry].
func (e *logEntry) AddTo(out event.Encoder) {
	out.AddString("event", string(e.Kind))
	out.AddString("request_id", e.RequestID)
	out.AddString("upstream_session", escapeForLog(string(e.Upstream)))
	out.AddString("downstream_session", e.Session)
	out.AddString("message", e.Message)
	out.AddString("action", string(e.Action))
	out.AddFloat64("duration_ms", float64(e.Duration.Microseconds())/1000)
	for _, f := range [...]struct{ name, value string }{
		{"subject", e.Subject},
		{"mode", string(e.Mode)},
		{"call_id", escapeForLog(e.CallID)},
		{"client_request", escapeForLog(e.Request.String())},
		{"reason", string(e.Reason)},
		{"by", string(e.By)},
		{"violation", e.Violation},
		{"error", e.Err},
	} {
		if f.value != "" {
			out.AddString(f.name, f.value)
		}
	}
	if e.Unseen {
		out.AddBool("unseen", true)
	}
	if e.Candidates != 0 {
		out.AddInt64("candidates", int64(e.Candidates))
	}
	if e.Code != 0 {
		out.AddInt64("code", e.Code)
	}
}

// logLevel is info for the normal course, and a warning for what an operator may have to
// look at.
func (e *questionEvent) logLevel() event.Level {
	switch {
	case e.Violation != "", e.Unseen:
		return event.LevelWarn
	case e.Kind == eventTimeout, e.Kind == eventError, e.Kind == eventRejected,
		e.Kind == eventLeaked:
		return event.LevelWarn
	}
	return event.LevelInfo
}
