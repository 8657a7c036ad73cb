package elicitation

import "github.com/rondo-mcp/rondo/roundtrip/event"

// AddTo implements [event.Entry]. The field event repeats the entry's message, which the field
// message may hide in some encoders. The first seven fields are always present.
func (e *questionEvent) AddTo(out event.Encoder) {
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

// logLevel is info for normal events, and warning for those that an operator may have to act on.
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
