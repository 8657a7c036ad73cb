package middleware

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
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
	"no other replica can serve the answer to a question asked here, and a restart or rollout " +
	"ends every flow " +
	"that waits for a person; set a shared key (Roundtrip.Sealer, KeyringFromEnv) to run more " +
	"than one process"

// anonymousMeaning is for the same reader. It is logged once.
const anonymousMeaning = "a question went to a caller of whom nothing is known: whoever has " +
	"the requestState can answer it; authenticate callers, or set the option Principal of " +
	"the adapter"

// Observe logs an event of the funnel or the server. Events of unknown types
// are passed over.
//
// It runs in the goroutine of the call, whose stack keeps the size that it once had
// while the call waits for a person. So each event that is not rare is logged by a
// function of its own that is not inlined, and takes the event as it came: the frame
// of Observe has 48 bytes, and 2,288 with all of them in it.
func (l *Log) Observe(ctx context.Context, e event.Event) {
	if l.silent {
		return
	}
	noteWhere(ctx, e)
	switch e.(type) {
	case event.InputRequested:
		l.logInputRequired(ctx, e)
	case event.WaitBegan, event.WaitEnded:
		l.logWait(ctx, e)
	case event.Answered:
		l.logAnswered(ctx, e)
	case event.Resumed:
		l.logResumed(ctx, e)
	case event.FlowEnded:
		l.logFlowEnded(ctx, e)
	case event.RequestRefused:
		l.logRefused(e)
	case event.StateRejected, event.AnswersDropped, event.AnswerInvalid,
		event.DeclineIgnored, event.CapabilityRefused, event.LegRunning,
		event.PushFailed, event.QuotaExceeded, event.AnonymousState, event.CutOff,
		event.StoreFailed, event.QuestionReworded:
		l.logRefusedFlow(ctx, e)
	case event.HandlerFailed, event.HandlerPanicked, event.ServerBug:
		l.logFailure(ctx, e)
	case event.SessionEvicted, event.KeysEnabled, event.EphemeralKey, event.RequestForwarded:
		l.logServerEvent(e)
	}
}

// noteWhere notes in the leg of ctx which flow and round an event is about.
//
//go:noinline
func noteWhere(ctx context.Context, e event.Event) {
	where, ok := whereOfEvent(e)
	if !ok {
		where, ok = whereOfRareEvent(e)
	}
	if ok {
		legFrom(ctx).noteWhere(where)
	}
}

// logRefusedFlow logs refusals within a flow: of states, answers, questions and
// calls.
//
//go:noinline
func (l *Log) logRefusedFlow(ctx context.Context, e event.Event) {
	switch e := e.(type) {
	case event.StateRejected:
		l.logStateRejected(ctx, e)
	case event.AnswersDropped:
		l.beginEntry(ctx, zap.InfoLevel, "mcp.answers_dropped", e.Where).writeEntry(
			zap.Int("count", len(e.Dropped)), zap.Array("dropped", droppedAnswers(e.Dropped)))
	case event.AnswerInvalid:
		l.beginEntry(ctx, zap.InfoLevel, "mcp.answer_invalid", e.Where).writeEntry(
			zap.String("key", redact.EscapeText(e.Key, maxKey)),
			zap.String("field", redact.EscapeText(e.Field, maxKey)),
			zap.String("rule", redact.EscapeText(string(e.Rule), maxKey)))
	case event.DeclineIgnored:
		l.beginEntry(ctx, zap.WarnLevel, "mcp.decline_ignored", e.Where).writeEntry(
			zap.String("key", redact.EscapeText(e.Key, maxKey)),
			zap.String("outcome", string(e.Decision)))
	case event.CapabilityRefused:
		l.beginEntry(ctx, zap.InfoLevel, "mcp.capability_refused", e.Where).writeEntry(
			zap.String("missing", redact.EscapeText(e.Missing.String(), maxText)))
	case event.AnonymousState:
		l.beginEntry(ctx, zap.WarnLevel, "mcp.anonymous_state", e.Where).writeEntry(
			zap.String("meaning", anonymousMeaning))
	case event.LegRunning:
		l.beginEntry(ctx, zap.InfoLevel, "mcp.leg_running", e.Where).writeEntry()
	case event.CutOff:
		l.beginEntry(ctx, zap.InfoLevel, "mcp.cut_off", e.Where).writeEntry(
			zap.Bool("retriable", e.Retriable))
	case event.StoreFailed:
		l.beginEntry(ctx, zap.ErrorLevel, "mcp.store_failed", e.Where).writeEntry(
			zap.String("resource", redact.EscapeText(e.Resource, maxText)),
			zap.String("operation", redact.EscapeText(e.Operation, maxText)),
			zap.String("error", errorText(ctx, e.Err)))
	case event.QuestionReworded:
		l.beginEntry(ctx, zap.WarnLevel, "mcp.question_reworded", e.Where).writeEntry(
			zap.String("key", redact.EscapeText(e.Key, maxKey)),
			zap.String("asked_by", redact.EscapeText(e.Asked, maxText)),
			zap.String("app_version", redact.EscapeText(e.Version, maxText)))
	case event.PushFailed:
		level := zap.WarnLevel
		if e.Tolerated { // the handler can do without
			level = zap.InfoLevel
		}
		l.beginEntry(ctx, level, "mcp.push_failed", e.Where).writeEntry(
			zap.String("kind", redact.EscapeText(string(e.Kind), maxText)),
			zap.String("outcome", pushOutcome(e)), zap.String("error", pushFailureText(e)))
	case event.QuotaExceeded:
		l.beginEntry(ctx, zap.WarnLevel, "mcp.quota_exceeded", e.Where).writeEntry(
			zap.String("resource", redact.EscapeText(e.Resource, maxText)),
			zap.String("limit", redact.EscapeText(e.Limit, maxText)),
			zap.Float64("retry_after_ms", milliseconds(e.RetryAfter)))
	}
}

// logFailure logs errors, panics and mistakes of handlers.
//
//go:noinline
func (l *Log) logFailure(ctx context.Context, e event.Event) {
	switch e := e.(type) {
	case event.HandlerFailed:
		l.logHandlerFailed(ctx, e)
	case event.HandlerPanicked:
		l.beginEntry(ctx, zap.ErrorLevel, "mcp.handler_panicked", e.Where).writeEntry(
			zap.String("panic", l.panicText(ctx, e)),
			zap.ByteString("stack", e.Stack[:min(len(e.Stack), maxStack)]))
	case event.ServerBug:
		l.beginEntry(ctx, zap.ErrorLevel, "mcp.server_bug", e.Where).writeEntry(
			zap.String("error", errorText(ctx, e.Err)))
	}
}

// logServerEvent logs events that are about no request that is served here.
//
//go:noinline
func (l *Log) logServerEvent(e event.Event) {
	switch e := e.(type) {
	case event.SessionEvicted:
		l.logger.Info("mcp.session_evicted", zap.Float64("idle_ms", milliseconds(e.Idle)),
			zap.String("limit", redact.EscapeText(e.Limit, maxText)))
	case event.RequestForwarded:
		l.logForwarded(e)
	case event.KeysEnabled:
		l.logger.Info("mcp.keys_enabled",
			zap.String("primary", redact.EscapeText(e.Primary, maxKey)),
			zap.Array("enabled", keyIDs(e.Enabled)))
	case event.EphemeralKey:
		l.logger.Warn("mcp.ephemeral_key",
			zap.String("key_id", redact.EscapeText(e.KeyID, maxText)),
			zap.String("meaning", ephemeralMeaning))
	}
}

// logForwarded logs a hop to the owner of a session. The entry of the request is the
// owner's. Where there was no response it is at debug level, since the client was refused,
// which is logged as well, and at a limited rate.
func (l *Log) logForwarded(e event.RequestForwarded) {
	level := zap.InfoLevel
	if e.Outcome != event.ForwardAnswered {
		level = zap.DebugLevel
	}
	if !l.logger.Core().Enabled(level) {
		return
	}
	fields := []zap.Field{
		zap.String("owner", redact.EscapeText(e.Owner, maxKey)),
		zap.String("outcome", redact.EscapeText(string(e.Outcome), maxKey)),
		zap.String("http_method", redact.EscapeText(e.HTTPMethod, maxKey)),
		zap.Int("status", e.Status), zap.Float64("duration_ms", milliseconds(e.Duration)),
		zap.String("remote_addr", redact.EscapeText(e.RemoteAddr, maxText)),
	}
	if e.Err != nil && !l.opts.OmitMessages {
		fields = append(fields, zap.String("error",
			redact.EscapeText(redact.HideURLSecrets(e.Err.Error()), maxCause)))
	}
	l.logger.Log(level, "mcp.request_forwarded", fields...)
}

// logWait logs the beginning and the end of a wait. The call parks right after the
// first.
//
//go:noinline
func (l *Log) logWait(ctx context.Context, e event.Event) {
	if !l.logger.Core().Enabled(zap.DebugLevel) {
		return
	}
	switch e := e.(type) {
	case event.WaitBegan:
		l.beginEntry(ctx, zap.DebugLevel, "mcp.wait_began", e.Where).writeEntry()
	case event.WaitEnded:
		l.beginEntry(ctx, zap.DebugLevel, "mcp.wait_ended", e.Where).writeEntry(
			zap.Float64("waited_ms", milliseconds(e.Waited)))
	}
}

func (l *Log) logStateRejected(ctx context.Context, e event.StateRejected) {
	w := l.beginEntry(ctx, zap.WarnLevel, "mcp.state_rejected", e.Where)
	if e.KeyID != "" {
		w.addFields(zap.String("key_id", redact.EscapeText(e.KeyID, maxKey)))
	}
	if (e.Reason == event.ReasonPrincipal || e.Reason == event.ReasonFuture) && e.Err != nil {
		w.addFields(zap.String("meaning", redact.EscapeText(e.Err.Error(), maxText)))
	}
	w.writeEntry(zap.String("reference", redact.EscapeText(e.Reference, maxText)),
		zap.String("reason", redact.EscapeText(string(e.Reason), maxText)))
}

//go:noinline
func (l *Log) logResumed(ctx context.Context, happened event.Event) {
	e := happened.(event.Resumed)
	l.beginEntry(ctx, zap.DebugLevel, "mcp.resumed", e.Where).writeEntry(
		zap.Float64("waited_ms", milliseconds(e.Waited)), zap.Int("state_bytes", e.StateBytes))
}

// fewRounds is with how many rounds left a question is logged as a warning: the
// flow is about to be ended with an error.
const fewRounds = 2

// logInputRequired logs questions. A leg of revision 2026-07-28 ends with its
// questions, so they are fields of the entry of the leg; their own entry is at
// debug level. In a session one call may ask several times.
//
//go:noinline
func (l *Log) logInputRequired(ctx context.Context, happened event.Event) {
	level := levelOfQuestions(ctx, happened)
	if entry := l.logger.Check(level, "mcp.input_required"); entry != nil {
		entry.Write(newInputRequiredEntry(ctx, happened).field[:]...)
	}
}

// levelOfQuestions returns the level of the entry of questions, and notes them in the leg where
// that has them.
//
//go:noinline
func levelOfQuestions(ctx context.Context, happened event.Event) zapcore.Level {
	e := happened.(event.InputRequested)
	if e.RoundsLeft >= 0 && e.RoundsLeft <= fewRounds {
		return zap.WarnLevel
	}
	if leg := legFrom(ctx); leg != nil && leg.logged && e.Version.Era() == protocol.Modern {
		leg.noteAsked(&askedFields{e.Kinds, e.Questions, e.StateBytes, e.RoundsLeft})
		return zap.DebugLevel
	}
	return zap.InfoLevel
}

//go:noinline
func (l *Log) logAnswered(ctx context.Context, happened event.Event) {
	e := happened.(event.Answered)
	level := zap.InfoLevel
	if e.Decision == event.Unseen { // this client will do it with every question
		level = zap.WarnLevel
	}
	if entry := l.logger.Check(level, "mcp.answered"); entry != nil {
		answered := &answeredEntry{
			eventHead: headOf(ctx, e.Where), key: e.Key, kind: string(e.Kind),
			outcome:   string(e.Decision),
			principal: principalKind(e.Principal), subject: l.subjectOf(e.Principal),
			question: e.QuestionDigest, waited: e.Waited, unsolicited: e.Unsolicited,
		}
		answered.field[0] = zap.Inline(answered)
		entry.Write(answered.field[:]...)
	}
}

// logFlowEnded logs the end of a flow, at debug level where the flow completed and
// the entry of the leg shows it.
//
//go:noinline
func (l *Log) logFlowEnded(ctx context.Context, happened event.Event) {
	e := happened.(event.FlowEnded)
	level := zap.InfoLevel
	if leg := legFrom(ctx); e.How == event.EndComplete && leg != nil && leg.logged {
		level = zap.DebugLevel
	}
	l.beginEntry(ctx, level, "mcp.flow_ended",
		e.Where).writeEntry(zap.String("how", redact.EscapeText(string(e.How), maxText)),
		zap.Int("legs", e.Legs))
}

func (l *Log) logHandlerFailed(ctx context.Context, e event.HandlerFailed) {
	level := zap.WarnLevel
	if isAbandoned(ctx, e) {
		level = zap.InfoLevel
	}
	w := l.beginEntry(ctx, level, "mcp.handler_failed", e.Where)
	if !l.opts.OmitErrors {
		w.addFields(zap.String("error", redact.EscapeText(redact.HideURLSecrets(e.Text), maxError)))
	}
	if e.Reference != "" {
		w.addFields(zap.String("reference", redact.EscapeText(e.Reference, maxText)))
	}
	w.writeEntry(zap.String("error_type", redact.EscapeText(fmt.Sprintf("%T", e.Err), maxText)))
}

// isAbandoned reports whether a handler failed because its client has gone, as it
// should then.
func isAbandoned(ctx context.Context, e event.HandlerFailed) bool {
	return ctx.Err() != nil && errors.Is(e.Err, context.Canceled)
}

// An entryWriter is a log entry under construction. Its entry is nil, and nothing
// is written, where the level is not logged.
type entryWriter struct {
	entry  *zapcore.CheckedEntry
	fields []zap.Field
}

// moreFields is room for the fields of an event, so that they need not move.
const moreFields = 8

// beginEntry starts the entry of an event with the fields of where.
func (l *Log) beginEntry(ctx context.Context, level zapcore.Level, name string,
	where event.Where) entryWriter {
	w := entryWriter{entry: l.logger.Check(level, name)}
	if w.entry != nil {
		head := headOf(ctx, where)
		w.fields = append(make([]zap.Field, 0, 1+moreFields), zap.Inline(&head))
	}
	return w
}

func (w *entryWriter) addFields(more ...zap.Field) { w.fields = append(w.fields, more...) }

// writeEntry ends the entry with the last fields.
func (w entryWriter) writeEntry(last ...zap.Field) {
	if w.entry != nil {
		w.entry.Write(append(w.fields, last...)...)
	}
}

// panicText returns the text of a panic, redacted. Run-time errors quote no
// values.
func (l *Log) panicText(ctx context.Context, e event.HandlerPanicked) string {
	if err, ok := e.Value.(error); ok {
		if e, ok := errors.AsType[runtime.Error](err); ok {
			return redact.EscapeText(e.Error(), maxError)
		}
	}
	if l.opts.OmitErrors {
		return fmt.Sprintf("value of type %T", e.Value)
	}
	text := e.Text
	if text == "" { // it was not the funnel that recovered it
		text = legFrom(ctx).maskText(fmt.Sprint(e.Value))
	}
	return redact.EscapeText(redact.HideURLSecrets(text), maxError)
}

// errorText returns the text of a server's bug, redacted. It names keys and
// fields, and is written where only the server's operators read it.
func errorText(ctx context.Context, err error) string {
	if err == nil {
		return ""
	}
	return redact.EscapeText(redact.HideURLSecrets(legFrom(ctx).maskText(err.Error())), maxText)
}

// maskText masks the strings of the request in a text, and anything that looks
// like a credential. l may be nil.
func (l *leg) maskText(text string) string {
	var secrets redact.Secrets
	if l != nil {
		secrets.AddCredential(l.request.Credential)
		addParams(&secrets, l.request.Params)
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

type askedQuestions []event.AskedQuestion

func (list askedQuestions) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, q := range list[:min(len(list), maxListed)] {
		key := redact.EscapeText(q.Key, maxKey)
		text := append(make([]byte, 0, len(key)+1+hex.EncodedLen(len(q.Digest))), key...)
		out.AppendByteString(hex.AppendEncode(append(text, ' '), q.Digest[:]))
	}
	return nil
}

type keyIDs []string

func (list keyIDs) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, id := range list[:min(len(list), maxListed)] {
		out.AppendString(redact.EscapeText(id, maxKey))
	}
	return nil
}

type droppedAnswers []event.Dropped

func (list droppedAnswers) MarshalLogArray(out zapcore.ArrayEncoder) error {
	for _, d := range list[:min(len(list), maxDropped)] {
		reason, key := redact.EscapeText(string(d.Reason), maxKey), redact.EscapeText(d.Key, maxKey)
		out.AppendString(reason + " " + key)
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

// pushFailureText says why a question has no answer. Of an error that the client
// sent it gives the code alone: the message may hold anything.
func pushFailureText(e event.PushFailed) string {
	if e.Err == nil {
		return ""
	}
	if said, ok := protocol.AsError(e.Err); ok && said.Code != protocol.CodeBusy {
		return fmt.Sprintf("the client answered with an error, code %d", said.Code)
	}
	return redact.EscapeText(e.Err.Error(), maxText)
}

// The values of the label of failed pushes.
const (
	pushRefused   = "refused"
	pushTolerated = "tolerated"
)

func pushOutcome(e event.PushFailed) string {
	if e.Tolerated {
		return pushTolerated
	}
	return pushRefused
}
