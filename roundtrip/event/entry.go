package event

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
)

// This file is the table of what logs and metrics make of each event: the level and the name of
// its entry, the fields of the entry, and the metrics that it drives.

// EntryOf returns the level and the name of the log entry of an event.
func EntryOf(e Event) (level Level, name string) { return e.logEntry() }

// AddFields writes the fields of the entry of an event to f, without those of its [Where].
func AddFields(e Event, f Fields) { e.addFields(f) }

// WhereOf returns the request that an event is about. It reports false for events about none.
func WhereOf(e Event) (where Where, ok bool) { return e.whereOf() }

// Count tells c what an event counts.
func Count(e Event, c Counter) { e.countMetrics(c) }

// A Counter takes what events count, by the names of metrics without their first part.
type Counter interface {
	// Count adds one to a counter with two labels at most, which are empty where it has fewer.
	Count(name, label, second string)
	// Sample adds a value to a histogram.
	Sample(name string, value float64)
}

func (w Where) whereOf() (Where, bool) { return w, true }
func (Where) addFields(Fields)         {}
func (Where) countMetrics(Counter)     {}

func (StateRejected) logEntry() (Level, string) { return LevelWarn, "mcp.state_rejected" }

func (e StateRejected) countMetrics(c Counter) {
	c.Count("state_rejections_total", string(e.Reason), "")
}

func (e StateRejected) addFields(f Fields) {
	f.addNonEmptyKey("key_id", e.KeyID)
	if (e.Reason == ReasonPrincipal || e.Reason == ReasonFuture) && e.Err != nil {
		f.AddText("meaning", e.Err.Error())
	}
	f.AddText("reference", e.Reference)
	f.AddText("reason", string(e.Reason))
}

func (AnswersDropped) logEntry() (Level, string) { return LevelInfo, "mcp.answers_dropped" }

func (e AnswersDropped) addFields(f Fields) {
	f.AddInt64("count", int64(len(e.Dropped)))
	for _, d := range e.Dropped[:min(len(e.Dropped), maxDropped)] {
		f.AppendItem(keyText(string(d.Reason)) + " " + keyText(d.Key))
	}
	f.AddItems("dropped")
}

func (e AnswersDropped) countMetrics(c Counter) {
	for _, d := range e.Dropped {
		c.Count("dropped_answers_total", string(d.Reason), "")
	}
}

func (Resumed) logEntry() (Level, string) { return LevelDebug, "mcp.resumed" }
func (e Resumed) countMetrics(c Counter)  { c.Sample("human_wait_seconds", e.Waited.Seconds()) }

func (e Resumed) addFields(f Fields) {
	f.AddMilliseconds("waited_ms", e.Waited)
	f.AddInt64("state_bytes", int64(e.StateBytes))
}

// fewRounds is with how many rounds left a question is a warning: the flow is about to be ended
// with an error.
const fewRounds = 2

func (e InputRequested) logEntry() (Level, string) {
	return warnIf(e.RoundsLeft >= 0 && e.RoundsLeft <= fewRounds), "mcp.input_required"
}

func (e InputRequested) addFields(f Fields) {
	(&asked{e.Kinds, e.Questions, e.StateBytes, e.RoundsLeft}).addFields(f)
}

// asked is an InputRequested without its Where. Nothing of it is copied when its fields are
// written, and a call that is about to wait has little stack left.
type asked struct {
	kinds                  []protocol.InputKind
	questions              []AskedQuestion
	stateBytes, roundsLeft int
}

// Compact returns an event with the fields of e whose entry takes less stack to write.
func Compact(e Event) Event {
	if e, ok := e.(InputRequested); ok {
		return &asked{e.Kinds, e.Questions, e.StateBytes, e.RoundsLeft}
	}
	return e
}

func (*asked) whereOf() (Where, bool)    { return Where{}, false }
func (*asked) logEntry() (Level, string) { return LevelInfo, "mcp.input_required" }
func (*asked) countMetrics(Counter)      {}

//go:noinline
func (a *asked) addFields(f Fields) {
	for _, kind := range a.kinds {
		f.AppendItem(string(kind))
	}
	f.AddItems("kinds")
	for i := range a.questions[:min(len(a.questions), maxListed)] {
		f.AppendItem(a.questions[i].Digest.behind(keyText(a.questions[i].Key)))
	}
	f.AddItems("questions")
	f.AddInt64("state_bytes", int64(a.stateBytes))
	f.AddInt64("rounds_left", int64(a.roundsLeft))
}

// behind returns the digest behind a key.
//
//go:noinline
func (d *QuestionDigest) behind(key string) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	text.Grow(len(key) + 1 + 2*len(d))
	text.WriteString(key)
	text.WriteByte(' ')
	for _, b := range d {
		text.WriteByte(digits[b>>4])
		text.WriteByte(digits[b&0xf])
	}
	return text.String()
}

func (e InputRequested) countMetrics(c Counter) {
	for _, kind := range e.Kinds {
		c.Count("input_required_total", string(kind), "")
	}
	if e.StateBytes > 0 {
		c.Sample("state_bytes", float64(e.StateBytes))
	}
}

// An unseen question is a warning: this client will do it with every question.
func (e Answered) logEntry() (Level, string) { return warnIf(e.Decision == Unseen), "mcp.answered" }

func (e Answered) countMetrics(c Counter) {
	c.Count("answers_total", string(e.Kind), string(e.Decision))
}

func (e Answered) addFields(f Fields) {
	f.addKey("key", e.Key)
	f.addKey("kind", string(e.Kind))
	f.addKey("outcome", string(e.Decision))
	f.AddPrincipal(e.Principal)
	if e.Unsolicited {
		f.AddBool("unsolicited", true)
		return
	}
	f.AddString("question", e.QuestionDigest.String())
	f.AddMilliseconds("waited_ms", e.Waited)
}

func (AnswerInvalid) logEntry() (Level, string) { return LevelInfo, "mcp.answer_invalid" }

func (e AnswerInvalid) countMetrics(c Counter) {
	c.Count("invalid_answers_total", string(e.Rule), "")
}

func (e AnswerInvalid) addFields(f Fields) {
	f.addKey("key", e.Key)
	f.addKey("field", e.Field)
	f.addKey("rule", string(e.Rule))
}

func (DeclineIgnored) logEntry() (Level, string) { return LevelWarn, "mcp.decline_ignored" }
func (DeclineIgnored) countMetrics(c Counter)    { c.Count("ignored_declines_total", "", "") }

func (e DeclineIgnored) addFields(f Fields) {
	f.addKey("key", e.Key)
	f.addKey("outcome", string(e.Decision))
}

func (FlowEnded) logEntry() (Level, string) { return LevelInfo, "mcp.flow_ended" }

func (e FlowEnded) addFields(f Fields) {
	f.AddText("how", string(e.How))
	f.AddInt64("legs", int64(e.Legs))
}

// count takes no rounds of a replay, which ends nothing: its flow was counted when it ended.
func (e FlowEnded) countMetrics(c Counter) {
	c.Count("flows_ended_total", string(e.How), "")
	if e.How != EndReplayed {
		c.Sample("flow_rounds", float64(e.Legs))
	}
}

func (CapabilityRefused) logEntry() (Level, string) { return LevelInfo, "mcp.capability_refused" }
func (e CapabilityRefused) addFields(f Fields)      { f.AddText("missing", e.Missing.String()) }

// count counts each capability that is missing.
func (e CapabilityRefused) countMetrics(c Counter) {
	missing := e.Missing
	count := func(lacks bool, name string) {
		if lacks {
			c.Count("capability_refusals_total", name, "")
		}
	}
	if e := missing.Elicitation; e != nil {
		count(e.Form, "elicitation.form")
		count(e.URL, "elicitation.url")
	}
	if s := missing.Sampling; s != nil {
		count(!s.Context && !s.Tools, "sampling")
		count(s.Context, "sampling.context")
		count(s.Tools, "sampling.tools")
	}
	count(missing.Roots != nil, "roots")
	count(len(missing.Experimental)+len(missing.Extensions) > 0, "other")
}

func (e HandlerFailed) logEntry() (Level, string) {
	return warnIf(!e.Abandoned), "mcp.handler_failed"
}

func (e HandlerFailed) addFields(f Fields) {
	if !f.OmitErrors {
		f.addError("error", e.Text)
	}
	f.AddNonEmpty("reference", e.Reference)
	f.AddText("error_type", fmt.Sprintf("%T", e.Err))
}

func (e HandlerFailed) countMetrics(c Counter) {
	if !e.Abandoned {
		c.Count("handler_failures_total", "", "")
	}
}

func (HandlerPanicked) logEntry() (Level, string) { return LevelError, "mcp.handler_panicked" }
func (HandlerPanicked) countMetrics(c Counter)    { c.Count("handler_panics_total", "", "") }

func (e HandlerPanicked) addFields(f Fields) {
	f.addError("panic", f.panicText(e))
	f.AddString("stack", string(e.Stack[:min(len(e.Stack), maxStack)]))
}

func (ServerBug) logEntry() (Level, string) { return LevelError, "mcp.server_bug" }
func (e ServerBug) addFields(f Fields)      { f.addFailure(e.Err) }
func (ServerBug) countMetrics(c Counter)    { c.Count("server_bugs_total", "", "") }

func (QuotaExceeded) logEntry() (Level, string) { return LevelWarn, "mcp.quota_exceeded" }
func (e QuotaExceeded) countMetrics(c Counter)  { c.Count("quota_refusals_total", e.Resource, "") }

func (e QuotaExceeded) addFields(f Fields) {
	f.AddText("resource", e.Resource)
	f.AddText("limit", e.Limit)
	f.AddMilliseconds("retry_after_ms", e.RetryAfter)
}

func (e PushFailed) logEntry() (Level, string) { return warnIf(!e.Tolerated), "mcp.push_failed" }
func (e PushFailed) countMetrics(c Counter)    { c.Count("push_failures_total", e.outcome(), "") }

func (e PushFailed) outcome() string {
	if e.Tolerated {
		return "tolerated"
	}
	return "refused"
}

// addFields gives of an error that the client sent the code alone: the message may hold
// anything.
func (e PushFailed) addFields(f Fields) {
	f.AddText("kind", string(e.Kind))
	f.AddString("outcome", e.outcome())
	text := ""
	if said, ok := protocol.AsError(e.Err); ok && said.Code != protocol.CodeBusy {
		text = fmt.Sprintf("the client answered with an error, code %d", said.Code)
	} else if e.Err != nil {
		text = e.Err.Error()
	}
	f.AddText("error", text)
}

func (WaitBegan) logEntry() (Level, string) { return LevelDebug, "mcp.wait_began" }
func (WaitEnded) logEntry() (Level, string) { return LevelDebug, "mcp.wait_ended" }
func (e WaitEnded) addFields(f Fields)      { f.AddMilliseconds("waited_ms", e.Waited) }

func (LegRunning) logEntry() (Level, string) { return LevelInfo, "mcp.leg_running" }

func (CutOff) logEntry() (Level, string) { return LevelInfo, "mcp.cut_off" }
func (e CutOff) addFields(f Fields)      { f.AddBool("retriable", e.Retriable) }
func (e CutOff) countMetrics(c Counter) {
	c.Count("cut_off_total", strconv.FormatBool(e.Retriable), "")
}

func (StoreFailed) logEntry() (Level, string) { return LevelError, "mcp.store_failed" }
func (e StoreFailed) countMetrics(c Counter)  { c.Count("store_failures_total", e.Operation, "") }

func (e StoreFailed) addFields(f Fields) {
	f.AddText("resource", e.Resource)
	f.AddText("operation", e.Operation)
	f.addFailure(e.Err)
}

func (QuestionReworded) logEntry() (Level, string) { return LevelWarn, "mcp.question_reworded" }
func (QuestionReworded) countMetrics(c Counter)    { c.Count("reworded_questions_total", "", "") }

func (e QuestionReworded) addFields(f Fields) {
	f.addKey("key", e.Key)
	f.AddText("asked_by", e.Asked)
	f.AddText("app_version", e.Version)
}

func (AnonymousState) logEntry() (Level, string) { return LevelWarn, "mcp.anonymous_state" }

// The meaning is for who operates a server, and may not have written it.
func (AnonymousState) addFields(f Fields) {
	f.AddString("meaning", "a question went to a caller of whom nothing is known: whoever has "+
		"the requestState can answer it; authenticate callers")
}

func (EphemeralKey) whereOf() (Where, bool)    { return Where{}, false }
func (EphemeralKey) logEntry() (Level, string) { return LevelWarn, "mcp.ephemeral_key" }
func (EphemeralKey) countMetrics(Counter)      {}

func (e EphemeralKey) addFields(f Fields) {
	f.AddText("key_id", e.KeyID)
	f.AddString("meaning", "requestState is sealed with a random key that only this process has: "+
		"no other replica can serve the answer to a question asked here, and a restart or "+
		"rollout ends every flow that waits for a person; set a shared key (Roundtrip.Sealer, "+
		"KeyringFromEnv) to run more than one process")
}

func (KeysEnabled) whereOf() (Where, bool)    { return Where{}, false }
func (KeysEnabled) logEntry() (Level, string) { return LevelInfo, "mcp.keys_enabled" }
func (KeysEnabled) countMetrics(Counter)      {}

func (e KeysEnabled) addFields(f Fields) {
	f.addKey("primary", e.Primary)
	for _, id := range e.Enabled[:min(len(e.Enabled), maxListed)] {
		f.AppendItem(keyText(id))
	}
	f.AddItems("enabled")
}

func (SessionEvicted) whereOf() (Where, bool)    { return Where{}, false }
func (SessionEvicted) logEntry() (Level, string) { return LevelInfo, "mcp.session_evicted" }
func (SessionEvicted) countMetrics(c Counter)    { c.Count("sessions_evicted_total", "", "") }

func (e SessionEvicted) addFields(f Fields) {
	f.AddMilliseconds("idle_ms", e.Idle)
	f.AddText("limit", e.Limit)
}

func (RequestForwarded) whereOf() (Where, bool) { return Where{}, false }
func (e RequestForwarded) countMetrics(c Counter) {
	c.Count("forwarded_requests_total", string(e.Outcome), "")
}

// entry is at debug level where there was no response, since the client was refused, which is
// logged as well, and at a limited rate. The entry of the request is the owner's.
func (e RequestForwarded) logEntry() (Level, string) {
	if e.Outcome != ForwardAnswered {
		return LevelDebug, "mcp.request_forwarded"
	}
	return LevelInfo, "mcp.request_forwarded"
}

func (e RequestForwarded) addFields(f Fields) {
	f.addKey("owner", e.Owner)
	f.addKey("outcome", string(e.Outcome))
	f.addKey("http_method", e.HTTPMethod)
	f.AddInt64("status", int64(e.Status))
	f.AddMilliseconds("duration_ms", e.Duration)
	f.AddText("remote_addr", e.RemoteAddr)
	f.addCause(e.Err)
}

func (RequestRefused) whereOf() (Where, bool) { return Where{}, false }

// entry is a warning for refusals that point to a wrong configuration or a lack of room, and info
// for those that every endpoint on a network sees all day.
func (e RequestRefused) logEntry() (Level, string) {
	switch e.Reason {
	case RefusedHost, RefusedOrigin, RefusedTooLarge, RefusedTooSlow, RefusedUnverified,
		RefusedRequests, RefusedSessions, RefusedOutcomeUnknown, RefusedUnreachable,
		RefusedMisdirected:
		return LevelWarn, "mcp.request_refused"
	}
	return LevelInfo, "mcp.request_refused"
}

func (e RequestRefused) addFields(f Fields) {
	f.addKey("reason", string(e.Reason))
	f.AddInt64("code", e.Code)
	f.addNonEmptyKey("transport", e.Transport)
	if e.Status != 0 {
		f.AddInt64("status", int64(e.Status))
	}
	f.addNonEmptyKey("id", e.RequestID)
	f.AddNonEmpty("remote_addr", e.RemoteAddr)
	if !e.Principal.Anonymous() {
		f.AddString("principal", PrincipalKind(e.Principal))
	}
	f.addCause(e.Err)
}

func (e RequestRefused) countMetrics(c Counter) {
	if e.Status == 0 {
		c.Count("line_refusals_total", string(e.Reason), "")
		return
	}
	c.Count("http_refusals_total", strconv.Itoa(e.Status), string(e.Reason))
}

func warnIf(condition bool) Level {
	if condition {
		return LevelWarn
	}
	return LevelInfo
}
