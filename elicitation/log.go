package elicitation

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// writeLog writes the log entry of an event. Its message is the event's name, and so is
// the field event: where the encoder calls the message of an entry "message", the field
// of that name hides it. The first seven fields are always there.
func writeLog(logger *zap.Logger, e *AuditEvent) {
	entry := logger.Check(e.logLevel(), string(e.Kind))
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 16)
	fields = append(fields,
		zap.String("event", string(e.Kind)),
		zap.String("request_id", e.RequestID),
		zap.String("upstream_session", escapeForLog(string(e.Upstream))),
		zap.String("downstream_session", e.Session),
		zap.String("message", e.Message),
		zap.String("action", string(e.Action)),
		zap.Float64("duration_ms", float64(e.Duration.Microseconds())/1000),
	)
	for _, f := range [...]struct{ name, value string }{
		{"mode", string(e.Mode)},
		{"call_id", escapeForLog(e.CallID)},
		{"client_request", escapeForLog(e.Request.String())},
		{"reason", string(e.Reason)},
		{"by", string(e.By)},
		{"violation", e.Violation},
		{"error", e.Err},
	} {
		if f.value != "" {
			fields = append(fields, zap.String(f.name, f.value))
		}
	}
	if e.Unseen {
		fields = append(fields, zap.Bool("unseen", true))
	}
	if e.Candidates != 0 {
		fields = append(fields, zap.Int("candidates", e.Candidates))
	}
	if e.Code != 0 {
		fields = append(fields, zap.Int64("code", e.Code))
	}
	entry.Write(fields...)
}

// logLevel is info for the normal course, and a warning for what an operator may have to
// look at.
func (e *AuditEvent) logLevel() zapcore.Level {
	switch {
	case e.Violation != "", e.Unseen:
		return zapcore.WarnLevel
	case e.Kind == EventTimeout, e.Kind == EventError, e.Kind == EventRejected,
		e.Kind == EventLeaked, e.Kind == EventReplyLost:
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}
