package protocol

import "encoding/json"

// A LoggingLevel is a severity of RFC 5424.
type LoggingLevel string

// The levels, least severe first.
const (
	LevelDebug     LoggingLevel = "debug"
	LevelInfo      LoggingLevel = "info"
	LevelNotice    LoggingLevel = "notice"
	LevelWarning   LoggingLevel = "warning"
	LevelError     LoggingLevel = "error"
	LevelCritical  LoggingLevel = "critical"
	LevelAlert     LoggingLevel = "alert"
	LevelEmergency LoggingLevel = "emergency"
)

// Severity returns 0 for debug up to 7 for emergency, or -1 for an unknown level.
func (l LoggingLevel) Severity() int {
	for i, level := range [...]LoggingLevel{
		LevelDebug, LevelInfo, LevelNotice, LevelWarning,
		LevelError, LevelCritical, LevelAlert, LevelEmergency,
	} {
		if l == level {
			return i
		}
	}
	return -1
}

// Valid reports whether l is one of the eight levels.
func (l LoggingLevel) Valid() bool { return l.Severity() >= 0 }

// LogMessage holds the parameters of notifications/message.
type LogMessage struct {
	Level  LoggingLevel    `json:"level"`
	Logger string          `json:"logger,omitzero"`
	Data   json.RawMessage `json:"data"`
	Meta   Meta            `json:"_meta,omitzero"`
}
