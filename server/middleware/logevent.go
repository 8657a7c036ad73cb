package middleware

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// maxDropped is how many dropped answers of a request are named. How many
	// there are is always told.
	maxDropped = 8
	// maxListed is the same for questions and keys, of which authors and
	// operators have few.
	maxListed = 16
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
		l.rejection(ctx, e)
	case roundtrip.AnswersDropped:
		l.begin(ctx, zap.InfoLevel, "mcp.answers_dropped", e.Where).write(
			zap.Int("count", len(e.Dropped)), zap.Array("dropped", droppedAnswers(e.Dropped)))
	case roundtrip.Resumed:
		l.resumed(ctx, e)
	case roundtrip.InputRequested:
		l.inputRequired(ctx, e)
	case roundtrip.Answered:
		l.answered(ctx, e)
	case roundtrip.AnswerInvalid:
		l.begin(ctx, zap.InfoLevel, "mcp.answer_invalid", e.Where).write(zap.String("key", safe(e.Key, maxKey)),
			zap.String("field", safe(e.Field, maxKey)), zap.String("rule", safe(string(e.Rule), maxKey)))
	case roundtrip.DeclineIgnored:
		l.begin(ctx, zap.WarnLevel, "mcp.decline_ignored", e.Where).write(
			zap.String("key", safe(e.Key, maxKey)), zap.String("outcome", e.Outcome.String()))
	case roundtrip.FlowEnded:
		l.flowEnded(ctx, e)
	case roundtrip.CapabilityRefused:
		l.begin(ctx, zap.InfoLevel, "mcp.capability_refused", e.Where).write(
			zap.String("missing", safe(e.Missing.String(), maxText)))
	case roundtrip.HandlerFailed:
		l.handlerFailed(ctx, e)
	case roundtrip.LegRunning:
		l.begin(ctx, zap.InfoLevel, "mcp.leg_running", e.Where).write()
	case roundtrip.PushFailed:
		l.begin(ctx, zap.WarnLevel, "mcp.push_failed", e.Where).write(zap.String("kind", safe(string(e.Kind), maxText)),
			zap.String("outcome", pushOutcome(e)), zap.String("error", pushFailureText(e)))
	case roundtrip.HandlerPanicked:
		l.begin(ctx, zap.ErrorLevel, "mcp.handler_panicked", e.Where).write(
			zap.String("panic", l.panicText(ctx, e)), zap.ByteString("stack", e.Stack[:min(len(e.Stack), maxStack)]))
	case roundtrip.ServerBug:
		l.begin(ctx, zap.ErrorLevel, "mcp.server_bug", e.Where).write(zap.String("error", errorText(ctx, e.Err)))
	case roundtrip.RequestRefused:
		l.refused(e)
	case roundtrip.QuotaExceeded:
		l.begin(ctx, zap.WarnLevel, "mcp.quota_exceeded", e.Where).write(zap.String("resource", safe(e.Resource, maxText)),
			zap.String("limit", safe(e.Limit, maxText)), zap.Float64("retry_after_ms", milliseconds(e.RetryAfter)))
	case roundtrip.WaitBegan:
		l.begin(ctx, zap.DebugLevel, "mcp.wait_began", e.Where).write()
	case roundtrip.WaitEnded:
		l.begin(ctx, zap.DebugLevel, "mcp.wait_ended", e.Where).write(zap.Float64("waited_ms", milliseconds(e.Waited)))
	case roundtrip.SessionEvicted:
		l.logger.Info("mcp.session_evicted", zap.Float64("idle_ms", milliseconds(e.Idle)), zap.String("limit", safe(e.Limit, maxText)))
	case roundtrip.KeysEnabled:
		l.logger.Info("mcp.keys_enabled", zap.String("primary", safe(e.Primary, maxKey)), zap.Array("enabled", keyIDs(e.Enabled)))
	case roundtrip.EphemeralKey:
		l.logger.Warn("mcp.ephemeral_key", zap.String("key_id", safe(e.KeyID, maxText)), zap.String("meaning", ephemeralMeaning))
	}
}

func (l *Log) rejection(ctx context.Context, e roundtrip.StateRejected) {
	w := l.begin(ctx, zap.WarnLevel, "mcp.state_rejected", e.Where)
	if e.KeyID != "" {
		w.add(zap.String("key_id", safe(e.KeyID, maxKey)))
	}
	w.write(zap.String("reference", safe(e.Reference, maxText)), zap.String("reason", safe(string(e.Reason), maxText)))
}

func (l *Log) resumed(ctx context.Context, e roundtrip.Resumed) {
	l.begin(ctx, zap.DebugLevel, "mcp.resumed", e.Where).write(
		zap.Float64("waited_ms", milliseconds(e.Waited)), zap.Int("state_bytes", e.StateBytes))
}

// fewRounds is with how many rounds left a question is logged as a warning: the
// flow is about to be ended with an error.
const fewRounds = 2

// inputRequired leaves what a leg of revision 2026-07-28 asked to the entry of
// the leg: such a leg ends with its questions. In a session one call may ask
// several times.
func (l *Log) inputRequired(ctx context.Context, e roundtrip.InputRequested) {
	asked := askedFields{e.Kinds, e.Questions, e.StateBytes, e.RoundsLeft}
	level := zap.InfoLevel
	if e.RoundsLeft >= 0 && e.RoundsLeft <= fewRounds {
		level = zap.WarnLevel
	} else if leg := legFrom(ctx); leg != nil && leg.logged && e.Version.Era() == protocol.Modern {
		leg.noteAsked(&asked)
		level = zap.DebugLevel
	}
	if entry := l.logger.Check(level, "mcp.input_required"); entry != nil {
		entry.Write(zap.Inline(&inputRequiredEntry{headOf(ctx, e.Where), asked}))
	}
}

func (l *Log) answered(ctx context.Context, e roundtrip.Answered) {
	if entry := l.logger.Check(zap.InfoLevel, "mcp.answered"); entry != nil {
		answered := &answeredEntry{
			eventHead: headOf(ctx, e.Where), key: e.Key, kind: string(e.Kind), outcome: e.Outcome.String(),
			principal: principalKind(e.Principal), subject: l.subject(e.Principal),
			question: e.QuestionDigest, waited: e.Waited, unsolicited: e.Unsolicited,
		}
		answered.field[0] = zap.Inline(answered)
		entry.Write(answered.field[:]...)
	}
}

// flowEnded says nothing of its own about a flow that completed where the entry
// of the leg says the same.
func (l *Log) flowEnded(ctx context.Context, e roundtrip.FlowEnded) {
	level := zap.InfoLevel
	if leg := legFrom(ctx); e.How == roundtrip.EndComplete && leg != nil && leg.logged {
		level = zap.DebugLevel
	}
	l.begin(ctx, level, "mcp.flow_ended", e.Where).write(zap.String("how", safe(string(e.How), maxText)), zap.Int("legs", e.Legs))
}

func (l *Log) handlerFailed(ctx context.Context, e roundtrip.HandlerFailed) {
	level := zap.WarnLevel
	if abandoned(ctx, e) {
		level = zap.InfoLevel
	}
	w := l.begin(ctx, level, "mcp.handler_failed", e.Where)
	if !l.opts.OmitErrors {
		w.add(zap.String("error", safe(withoutQuery(e.Text), maxError)))
	}
	if e.Reference != "" {
		w.add(zap.String("reference", safe(e.Reference, maxText)))
	}
	w.write(zap.String("error_type", safe(fmt.Sprintf("%T", e.Err), maxText)))
}

// abandoned reports whether a handler failed because its client has gone, which
// is what it is to do then.
func abandoned(ctx context.Context, e roundtrip.HandlerFailed) bool {
	return ctx.Err() != nil && errors.Is(e.Err, context.Canceled)
}

// A line is an entry of the log that is being put together. The entry is nil
// where the level is not logged: then nothing is written.
type line struct {
	entry  *zapcore.CheckedEntry
	fields []zap.Field
}

// moreFields is room for the fields of an event, so that they need not move.
const moreFields = 8

// begin starts the entry of an event with the fields of where.
func (l *Log) begin(ctx context.Context, level zapcore.Level, name string, where roundtrip.Where) line {
	w := line{entry: l.logger.Check(level, name)}
	if w.entry != nil {
		head := headOf(ctx, where)
		w.fields = append(make([]zap.Field, 0, 1+moreFields), zap.Inline(&head))
	}
	return w
}

func (w *line) add(more ...zap.Field) { w.fields = append(w.fields, more...) }

// write ends the entry with the last fields.
func (w line) write(last ...zap.Field) {
	if w.entry != nil {
		w.entry.Write(append(w.fields, last...)...)
	}
}

// panicText is what was panicked with. Errors of the run time quote nothing.
func (l *Log) panicText(ctx context.Context, e roundtrip.HandlerPanicked) string {
	if err, ok := e.Value.(error); ok {
		if e, ok := errors.AsType[runtime.Error](err); ok {
			return safe(e.Error(), maxError)
		}
	}
	if l.opts.OmitErrors {
		return fmt.Sprintf("value of type %T", e.Value)
	}
	text := e.Text
	if text == "" { // it was not the funnel that recovered it
		text = legFrom(ctx).mask(fmt.Sprint(e.Value))
	}
	return safe(withoutQuery(text), maxError)
}

// errorText is the text of a server's bug. It names keys and fields, and is
// written where only the server's own people read it.
func errorText(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	return safe(withoutQuery(legFrom(ctx).mask(err.Error())), maxText)
}

// mask takes out of a text what the request has brought. A nil leg knows of
// nothing and takes out what looks like a credential.
func (l *leg) mask(text string) string {
	var secrets redact.Secrets
	if l != nil {
		secrets.AddCredential(l.in.Credential)
		addParams(&secrets, l.in.Params)
	}
	return secrets.Redact(text)
}

func addParams(secrets *redact.Secrets, params protocol.Params) {
	var retry protocol.Retry
	switch p := params.(type) {
	case *protocol.CallToolParams:
		secrets.AddJSON(p.Arguments)
		retry = p.Retry
	case *protocol.GetPromptParams:
		secrets.AddJSON(p.Arguments)
		retry = p.Retry
	case *protocol.ReadResourceParams:
		retry = p.Retry
	case *protocol.CompleteParams:
		secrets.AddText(p.Argument.Value)
		for _, value := range p.Context {
			secrets.AddText(value)
		}
	}
	if state, _ := retry.RequestState.Text(); state != "" {
		secrets.AddText(state)
	}
	for _, answer := range retry.InputResponses {
		secrets.AddJSON(answer.Result)
	}
}

type askedQuestions []roundtrip.AskedQuestion

func (list askedQuestions) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, q := range list[:min(len(list), maxListed)] {
		key := safe(q.Key, maxKey)
		text := append(make([]byte, 0, len(key)+1+hex.EncodedLen(len(q.Digest))), key...)
		out.AppendByteString(hex.AppendEncode(append(text, ' '), q.Digest[:]))
	}
	return nil
}

type keyIDs []string

func (list keyIDs) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, id := range list[:min(len(list), maxListed)] {
		out.AppendString(safe(id, maxKey))
	}
	return nil
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
