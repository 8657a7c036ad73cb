package middleware

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// maxDropped is how many dropped answers of a request are named. How many
	// there are is always told.
	maxDropped = 8
	// maxStack is how much of a stack is logged, in bytes: the frames of
	// interest come first.
	maxStack = 16 << 10
)

// ephemeralMeaning is for who operates a server, and may not have written it.
const ephemeralMeaning = "requestState is sealed with a random key that only this process has: " +
	"no other replica can serve the answer to a question asked here, and a restart or rollout ends every flow " +
	"that waits for a person; set a shared key (Roundtrip.Sealer, KeyringFromEnv) to run more than one process"

// Observe logs an event of the funnel or the server. Events of unknown types
// are passed over.
func (l *Log) Observe(ctx context.Context, event roundtrip.Event) {
	if l.silent {
		return
	}
	if where, ok := whereOf(event); ok {
		legFrom(ctx).follow(where)
	}
	switch e := event.(type) {
	case roundtrip.StateRejected:
		l.event(zap.WarnLevel, "mcp.state_rejected", e.Where,
			zap.String("reference", safe(e.Reference, maxText)), zap.String("reason", safe(string(e.Reason), maxText)))
	case roundtrip.AnswersDropped:
		l.event(zap.InfoLevel, "mcp.answers_dropped", e.Where,
			zap.Int("count", len(e.Dropped)), zap.Array("dropped", droppedAnswers(e.Dropped)))
	case roundtrip.Resumed:
		l.event(zap.DebugLevel, "mcp.resumed", e.Where,
			zap.Float64("waited_ms", milliseconds(e.Waited)), zap.Int("state_bytes", e.StateBytes))
	case roundtrip.InputRequested:
		level := zap.InfoLevel
		if e.NearLimit {
			level = zap.WarnLevel
		}
		l.event(level, "mcp.input_required", e.Where, zap.Array("kinds", inputKinds(e.Kinds)),
			zap.Int("state_bytes", e.StateBytes), zap.Bool("near_limit", e.NearLimit))
	case roundtrip.FlowEnded:
		l.event(zap.InfoLevel, "mcp.flow_ended", e.Where,
			zap.String("how", safe(string(e.How), maxText)), zap.Int("legs", e.Legs))
	case roundtrip.CapabilityRefused:
		l.event(zap.InfoLevel, "mcp.capability_refused", e.Where, zap.String("missing", safe(e.Missing.String(), maxText)))
	case roundtrip.HandlerPanicked:
		l.event(zap.ErrorLevel, "mcp.handler_panicked", e.Where,
			zap.String("panic", l.panicText(e.Value)), zap.ByteString("stack", e.Stack[:min(len(e.Stack), maxStack)]))
	case roundtrip.ServerBug:
		l.event(zap.ErrorLevel, "mcp.server_bug", e.Where, zap.String("error", errorText(e.Err)))
	case roundtrip.RequestRefused:
		l.refused(e)
	case roundtrip.QuotaExceeded:
		l.event(zap.WarnLevel, "mcp.quota_exceeded", e.Where, zap.String("resource", safe(e.Resource, maxText)),
			zap.String("limit", safe(e.Limit, maxText)), zap.Float64("retry_after_ms", milliseconds(e.RetryAfter)))
	case roundtrip.SessionEvicted:
		l.logger.Info("mcp.session_evicted", zap.Float64("idle_ms", milliseconds(e.Idle)), zap.String("limit", safe(e.Limit, maxText)))
	case roundtrip.EphemeralKey:
		l.logger.Warn("mcp.ephemeral_key", zap.String("key_id", safe(e.KeyID, maxText)), zap.String("meaning", ephemeralMeaning))
	}
}

// event writes an entry with the fields of where before those given.
func (l *Log) event(level zapcore.Level, name string, where roundtrip.Where, more ...zap.Field) {
	entry := l.logger.Check(level, name)
	if entry == nil {
		return
	}
	fields := make([]zap.Field, 0, 5+len(more))
	fields = append(fields,
		zap.String("method", safe(where.Method, maxText)),
		zap.String("target", target(where.Target)),
		zap.String("version", safe(string(where.Version), maxText)))
	if where.Round > 0 {
		fields = append(fields, zap.Int("round", where.Round))
	}
	if where.Flow != "" {
		fields = append(fields, zap.String("flow", safe(where.Flow, maxText)))
	}
	entry.Write(append(fields, more...)...)
}

// panicText never calls a method of a value that is not an error of the
// runtime's unless it was asked to: it might panic as well.
func (l *Log) panicText(v any) string {
	if err, ok := v.(error); ok {
		if e, ok := errors.AsType[runtime.Error](err); ok {
			return safe(e.Error(), maxText)
		}
	}
	if l.opts.PanicValues {
		return safe(fmt.Sprint(v), maxText)
	}
	return fmt.Sprintf("value of type %T", v)
}

// errorText is the text of a server's bug. It names keys and fields, and is
// written where only the server's own people read it.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return safe(withoutQuery(err.Error()), maxText)
}

type droppedAnswers []roundtrip.Dropped

func (list droppedAnswers) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, d := range list[:min(len(list), maxDropped)] {
		out.AppendString(safe(string(d.Reason), maxKey) + " " + safe(d.Key, maxKey))
	}
	return nil
}

type inputKinds []protocol.InputKind

func (list inputKinds) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, kind := range list {
		out.AppendString(string(kind))
	}
	return nil
}
