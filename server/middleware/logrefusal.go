package middleware

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

const (
	// maxRefusalLines is how many refusals a second are logged one by one: enough
	// to see what is wrong, too few to fill a disk with what costs its sender
	// nothing.
	maxRefusalLines = 10
	// refusalWindow is the second that they are counted in.
	refusalWindow = time.Second
	// maxCause is how much is logged of why a request was refused, in characters. It
	// begins with what the peer sent and ends with what to do.
	maxCause = 512
)

// A refusalLog limits the rate of entries about refused requests. It writes one
// summary of the omitted ones within a second.
type refusalLog struct {
	logger *zap.Logger

	mu      sync.Mutex
	last    [maxRefusalLines]time.Time // when the last lines were logged, a ring
	oldest  int                        // of them
	omitted map[string]int             // how many were left out since the last summary, by reason
	summary *time.Timer                // writes it; nil: nothing was left out
}

// admitLine reports whether one more line may be logged now, and counts it if not.
func (l *refusalLog) admitLine(reason string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.last[l.oldest]) >= refusalWindow {
		l.last[l.oldest] = now
		l.oldest = (l.oldest + 1) % maxRefusalLines
		return true
	}
	if l.omitted == nil {
		l.omitted = map[string]int{}
	}
	l.omitted[reason]++
	if l.summary == nil {
		l.summary = time.AfterFunc(refusalWindow, l.writeSummary)
	}
	return false
}

// writeSummary logs how many lines have been left out.
func (l *refusalLog) writeSummary() {
	l.mu.Lock()
	beyond := l.omitted
	l.omitted, l.summary = nil, nil
	l.mu.Unlock()
	total := 0
	reasons := make([]string, 0, len(beyond))
	for reason, n := range beyond {
		total += n
		reasons = append(reasons, reason+" "+strconv.Itoa(n))
	}
	slices.Sort(reasons)
	l.logger.Warn("mcp.requests_refused", zap.Int("count", total), zap.Strings("reasons", reasons))
}

// logRefused logs a request that was refused before any middleware saw it.
//
//go:noinline
func (l *Log) logRefused(happened event.Event) {
	e := happened.(event.RequestRefused)
	reason := refusalReason(e.Reason)
	level := refusalLevel(e.Reason)
	if !l.logger.Core().Enabled(level) || !l.refusals.admitLine(reason) {
		return
	}
	fields := make([]zap.Field, 0, 8)
	fields = append(fields, zap.String("reason", reason), zap.Int64("code", e.Code))
	if e.Transport != "" {
		fields = append(fields, zap.String("transport", redact.EscapeText(e.Transport, maxKey)))
	}
	if e.Status != 0 {
		fields = append(fields, zap.Int("status", e.Status))
	}
	if e.RequestID != "" {
		fields = append(fields, zap.String("id", redact.EscapeText(e.RequestID, maxKey)))
	}
	if e.RemoteAddr != "" {
		fields = append(fields, zap.String("remote_addr", redact.EscapeText(e.RemoteAddr, maxText)))
	}
	if !e.Principal.Anonymous() {
		fields = append(fields, zap.String("principal", principalKind(e.Principal)))
	}
	if e.Err != nil && !l.opts.OmitMessages {
		cause := redact.EscapeText(redact.HideURLSecrets(e.Err.Error()), maxCause)
		fields = append(fields, zap.String("error", cause))
	}
	l.logger.Log(level, "mcp.request_refused", fields...)
}

// refusalLevel returns info for refusals that every endpoint on a network sees all
// day, and warning for those that point to a wrong configuration or a lack of
// room.
func refusalLevel(reason event.RefusalReason) zapcore.Level {
	switch reason {
	case event.RefusedHost, event.RefusedOrigin, event.RefusedTooLarge,
		event.RefusedTooSlow, event.RefusedUnverified,
		event.RefusedRequests, event.RefusedSessions, event.RefusedOutcomeUnknown,
		event.RefusedUnreachable, event.RefusedMisdirected:
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}
