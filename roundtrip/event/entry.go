package event

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
)

// This file declares each event once: level, name and fields of its log entry, and its metrics.

type head struct {
	level   Level
	name    string
	refusal bool // a request was not granted
}

// EntryOf returns the level and name of an event's log entry.
func EntryOf(e Event) (level Level, name string) {
	h := e.head()
	return h.level, h.name
}

// IsRefusal reports whether the event means that a request was not granted.
func IsRefusal(e Event) bool { return e.head().refusal }

// AddFields writes the fields of an event's entry to f, without those of its [Where].
func AddFields(e Event, f Fields) { e.addFields(f) }

// WhereOf returns the request that an event is about, and false if there is none.
func WhereOf(e Event) (where Where, ok bool) { return e.whereOf() }

func (w Where) whereOf() (Where, bool) { return w, true }
func (Where) addFields(Fields)         {}
func (Where) countMetrics(counter)     {}

// The type nowhere is embedded in events without a request.
type nowhere struct{}

func (nowhere) whereOf() (Where, bool) { return Where{}, false }
func (nowhere) countMetrics(counter)   {}

func (StateRejected) head() head { return head{LevelWarn, "mcp.state_rejected", true} }

func (e StateRejected) countMetrics(c counter) {
	c.add(row{name: "state_rejections_total", help: "Requests whose requestState was refused.",
		first: oneOf("reason", e.Reason, reasons)}, 1)
}

func (e StateRejected) addFields(f Fields) {
	f.addNonEmptyKey("key_id", e.KeyID)
	if (e.Reason == words.ReasonPrincipal || e.Reason == words.ReasonFuture) && e.Err != nil {
		f.AddText("meaning", e.Err.Error())
	}
	f.AddText("reference", e.Reference)
	f.AddText("reason", string(e.Reason))
}

func (AnswersDropped) head() head { return head{LevelInfo, "mcp.answers_dropped", false} }

func (e AnswersDropped) addFields(f Fields) {
	f.AddInt64("count", int64(len(e.Dropped)))
	for _, d := range e.Dropped[:min(len(e.Dropped), maxDropped)] {
		f.AppendItem(keyText(string(d.Reason)) + " " + keyText(d.Key))
	}
	f.AddItems("dropped")
}

func (e AnswersDropped) countMetrics(c counter) {
	for _, d := range e.Dropped {
		c.add(row{name: "dropped_answers_total",
			help:  "Answers that came with a request and were not used.",
			first: oneOf("reason", d.Reason, dropReasons)}, 1)
	}
}

func (Resumed) head() head { return head{LevelDebug, "mcp.resumed", false} }

func (e Resumed) countMetrics(c counter) {
	c.add(row{name: "human_wait_seconds",
		help:    "Time from sending questions to the return of their answers.",
		buckets: WaitBuckets}, e.Waited.Seconds())
}

func (e Resumed) addFields(f Fields) {
	f.AddMilliseconds("waited_ms", e.Waited)
	f.AddInt64("state_bytes", int64(e.StateBytes))
}

const fewRounds = 2 // rounds left at which a question is a warning: the flow is about to fail

func (e InputRequested) head() head {
	return head{warnIf(e.RoundsLeft >= 0 && e.RoundsLeft <= fewRounds), "mcp.input_required", false}
}

func (e InputRequested) addFields(f Fields) {
	(&asked{nowhere{}, e.Kinds, e.Questions, e.StateBytes, e.RoundsLeft}).addFields(f)
	f.AddNonEmpty("way", string(e.Way))
}

// The type asked is a small [InputRequested], because a call about to wait has little stack left.
type asked struct {
	nowhere
	kinds                  []protocol.InputKind
	questions              []AskedQuestion
	stateBytes, roundsLeft int
}

// Compact returns an equivalent event whose entry takes less stack to write.
func Compact(e Event) Event {
	if e, ok := e.(InputRequested); ok && e.Way == "" {
		return &asked{nowhere{}, e.Kinds, e.Questions, e.StateBytes, e.RoundsLeft}
	}
	return e
}

func (*asked) head() head { return head{LevelInfo, "mcp.input_required", false} }

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

// behind returns the key followed by the digest.
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

func (e InputRequested) countMetrics(c counter) {
	for _, kind := range e.Kinds {
		c.add(row{name: "input_required_total", help: "Questions asked.",
			first: oneOf("kind", kind, kinds)}, 1)
	}
	if e.StateBytes > 0 {
		c.add(row{name: "state_bytes", help: "Size of the requestState that was sent.",
			buckets: stateBuckets}, float64(e.StateBytes))
	}
}

// An unseen question is a warning: this client will not show the others either.
func (e Answered) head() head { return head{warnIf(e.Decision == Unseen), "mcp.answered", false} }

func (e Answered) countMetrics(c counter) {
	c.add(row{name: "answers_total",
		help:  "What people decided on questions, and clients on those for them.",
		first: oneOf("kind", e.Kind, kinds), second: oneOf("outcome", e.Decision, decisions)}, 1)
	if e.Way != "" {
		c.add(row{name: "form_answers_total", help: "What people decided on forms, by the way in " +
			"which the form reached them.", first: oneOf("way", e.Way, ways)}, 1)
	}
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
	if e.Way != words.WayForm {
		f.AddNonEmpty("way", string(e.Way))
	}
	f.AddMilliseconds("waited_ms", e.Waited)
}

func (AnswerInvalid) head() head { return head{LevelInfo, "mcp.answer_invalid", true} }

func (e AnswerInvalid) countMetrics(c counter) {
	c.add(row{name: "invalid_answers_total",
		help:  "Accepted answers that did not fit the question.",
		first: oneOf("rule", e.Rule, rules)}, 1)
}

func (e AnswerInvalid) addFields(f Fields) {
	f.addKey("key", e.Key)
	f.addKey("field", e.Field)
	f.addKey("rule", string(e.Rule))
}

func (DeclineIgnored) head() head { return head{LevelWarn, "mcp.decline_ignored", false} }

func (DeclineIgnored) countMetrics(c counter) {
	c.add(row{name: "ignored_declines_total", help: "Requests that a handler completed without " +
		"having looked at what a person declined or cancelled."}, 1)
}

func (e DeclineIgnored) addFields(f Fields) {
	f.addKey("key", e.Key)
	f.addKey("outcome", string(e.Decision))
}

func (e FlowEnded) head() head {
	refused := e.How != words.EndComplete && e.How != words.EndReplayed
	return head{LevelInfo, "mcp.flow_ended", refused}
}

func (e FlowEnded) addFields(f Fields) {
	f.AddText("how", string(e.How))
	f.AddInt64("legs", int64(e.Legs))
}

// countMetrics skips replays, whose flow was counted when it ended.
func (e FlowEnded) countMetrics(c counter) {
	c.add(row{name: "flows_ended_total", help: "Flows of more than one leg that came to an end.",
		first: oneOf("how", e.How, flowEnds)}, 1)
	if e.How != words.EndReplayed {
		c.add(row{name: "flow_rounds",
			help:    "Legs of a flow that had more than one, the last included.",
			buckets: roundBuckets}, float64(e.Legs))
	}
}

func (e CapabilityRefused) head() head {
	return head{warnIf(e.AnonymousPage), "mcp.capability_refused", true}
}

func (e CapabilityRefused) addFields(f Fields) {
	f.AddText("missing", e.Missing.String())
	if e.AnonymousPage {
		f.AddText("page", "it does not serve anonymous callers: authenticate them")
	}
}

// countMetrics counts each missing capability.
func (e CapabilityRefused) countMetrics(c counter) {
	missing := e.Missing
	count := func(lacks bool, name string) {
		if lacks {
			c.add(row{name: "capability_refusals_total",
				help:  "Capabilities that a client lacked to be asked something.",
				first: oneOf("capability", name, capabilities)}, 1)
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

func (e HandlerFailed) head() head {
	return head{warnIf(!e.Abandoned), "mcp.handler_failed", !e.Abandoned}
}

func (e HandlerFailed) addFields(f Fields) {
	if !f.OmitErrors {
		f.addError("error", e.Text)
	}
	f.AddNonEmpty("reference", e.Reference)
	f.AddText("error_type", fmt.Sprintf("%T", e.Err))
}

func (e HandlerFailed) countMetrics(c counter) {
	if !e.Abandoned {
		c.add(row{name: "handler_failures_total",
			help: "Errors of their own that handlers returned."}, 1)
	}
}

func (HandlerPanicked) head() head { return head{LevelError, "mcp.handler_panicked", true} }

func (HandlerPanicked) countMetrics(c counter) {
	c.add(row{name: "handler_panics_total",
		help: "Panics of handlers and middleware that were recovered."}, 1)
}

func (e HandlerPanicked) addFields(f Fields) {
	f.addError("panic", f.panicText(e))
	f.AddString("stack", string(e.Stack[:min(len(e.Stack), maxStack)]))
}

func (ServerBug) head() head           { return head{LevelError, "mcp.server_bug", true} }
func (e ServerBug) addFields(f Fields) { f.addFailure(e.Err) }

func (ServerBug) countMetrics(c counter) {
	c.add(row{name: "server_bugs_total",
		help: "Mistakes of handlers that clients got as internal errors."}, 1)
}

func (QuotaExceeded) head() head { return head{LevelWarn, "mcp.quota_exceeded", true} }

func (e QuotaExceeded) countMetrics(c counter) {
	c.add(row{name: "quota_refusals_total",
		help:  "Requests refused for want of room, and those that lost a long _meta.",
		first: oneOf("resource", e.Resource, "guard store subscriptions waiting meta tasks")}, 1)
}

func (e QuotaExceeded) addFields(f Fields) {
	f.AddText("resource", e.Resource)
	f.AddText("limit", e.Limit)
	f.AddMilliseconds("retry_after_ms", e.RetryAfter)
}

func (e PushFailed) head() head {
	return head{warnIf(!e.Tolerated), "mcp.push_failed", !e.Tolerated}
}

func (e PushFailed) countMetrics(c counter) {
	c.add(row{name: "push_failures_total",
		help:  "Questions put to a client while a call runs that nobody answered.",
		first: oneOf("outcome", e.outcome(), "refused tolerated")}, 1)
}

func (e PushFailed) outcome() string {
	if e.Tolerated {
		return "tolerated"
	}
	return "refused"
}

// addFields adds only the code of a client's error: its message may hold anything.
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

func (WaitBegan) head() head           { return head{LevelDebug, "mcp.wait_began", false} }
func (WaitEnded) head() head           { return head{LevelDebug, "mcp.wait_ended", false} }
func (e WaitEnded) addFields(f Fields) { f.AddMilliseconds("waited_ms", e.Waited) }

func (LegRunning) head() head { return head{LevelInfo, "mcp.leg_running", false} }

func (CutOff) head() head           { return head{LevelInfo, "mcp.cut_off", false} }
func (e CutOff) addFields(f Fields) { f.AddBool("retriable", e.Retriable) }
func (e CutOff) countMetrics(c counter) {
	c.add(row{name: "cut_off_total", help: "Requests that ended before they had a result.",
		first: oneOf("retriable", strconv.FormatBool(e.Retriable), "true false")}, 1)
}

func (StoreFailed) head() head { return head{LevelError, "mcp.store_failed", true} }

func (e StoreFailed) countMetrics(c counter) {
	c.add(row{name: "store_failures_total",
		help: "Operations of a guard, or of a store of states or tasks, that failed.",
		first: oneOf("operation", e.Operation, "claim renew commit release read write get put open sweep drop prepare run "+
			"create find save")}, 1)
}

func (e StoreFailed) addFields(f Fields) {
	f.AddText("resource", e.Resource)
	f.AddText("operation", e.Operation)
	f.addFailure(e.Err)
}

func (e TaskChanged) head() head {
	switch e.Change {
	case "begun":
		return head{LevelInfo, "mcp.task_begun", false}
	case "taken_over":
		return head{LevelWarn, "mcp.task_taken_over", false}
	case "queued", "dequeued", "runs", "stops":
		return head{LevelDebug, "mcp.task_run", false}
	case "died":
		return head{LevelError, "mcp.task_ended", false}
	}
	return head{LevelInfo, "mcp.task_ended", false}
}

func (e TaskChanged) addFields(f Fields) {
	f.AddText("task", e.Task)
	f.AddText("change", e.Change)
	f.AddInt64("deaths", int64(e.Deaths))
	f.AddMilliseconds("lasted_ms", e.Lasted)
}

func (e TaskChanged) countMetrics(c counter) {
	count := func(status string, n float64) {
		c.add(row{name: "tasks", gauge: true, help: "Tasks that this process holds: those that run " +
			"and those that wait for their turn.",
			first: oneOf("status", status, "running queued")}, n)
	}
	switch e.Change {
	case "queued":
		count("queued", 1)
	case "dequeued":
		count("queued", -1)
		c.add(row{name: "task_queue_seconds", help: "Time for which tasks waited for their turn.",
			buckets: WaitBuckets}, e.Lasted.Seconds())
	case "runs":
		count("running", 1)
	case "stops":
		count("running", -1)
	case "begun":
		c.add(row{name: "tasks_begun_total", help: "Tasks that were begun here."}, 1)
	case "taken_over":
		c.add(row{name: "tasks_taken_over_total",
			help: "Tasks whose process ended and that went on here."}, 1)
	default:
		c.add(row{name: "tasks_ended_total", help: "Tasks that are over.",
			first: oneOf("how", e.Change, "completed failed cancelled expired died")}, 1)
	}
}

func (e VisitServed) head() head {
	switch e.How {
	case "shown", "finished", "late", "over":
		return head{LevelInfo, "mcp.visit_served", false}
	case "store":
		return head{LevelError, "mcp.visit_refused", true}
	}
	return head{LevelWarn, "mcp.visit_refused", true}
}

func (e VisitServed) addFields(f Fields) {
	f.AddText("how", e.How)
	f.AddNonEmpty("visit", e.Visit)
	f.AddPrincipal(e.Principal)
	f.AddNonEmpty("remote_addr", e.RemoteAddr)
}

func (e VisitServed) countMetrics(c counter) {
	c.add(row{name: "visits_total", help: "Requests of browsers for the page of a visit, by how they " +
		"were served, or why not.", first: oneOf("how", e.How, visitWays)}, 1)
}

func (MessageRepaired) head() head { return head{LevelInfo, "mcp.message_repaired", false} }

func (e MessageRepaired) addFields(f Fields) {
	f.AddBool("text", len(e.Arguments) == 0)
	for _, name := range e.Arguments[:min(len(e.Arguments), maxListed)] {
		f.AppendItem(keyText(name))
	}
	f.AddItems("arguments")
}

func (QuestionReworded) head() head { return head{LevelWarn, "mcp.question_reworded", false} }

func (QuestionReworded) countMetrics(c counter) {
	c.add(row{name: "reworded_questions_total", help: "Answers to a question that another " +
		"version of the application asked differently."}, 1)
}

func (e QuestionReworded) addFields(f Fields) {
	f.addKey("key", e.Key)
	f.AddText("asked_by", e.Asked)
	f.AddText("app_version", e.Version)
}

func (AnonymousState) head() head { return head{LevelWarn, "mcp.anonymous_state", false} }

// The meaning is for operators, who may not have written the server.
func (AnonymousState) addFields(f Fields) {
	f.AddString("meaning", "a question went to a caller without identity: anybody with its "+
		"requestState can answer it; authenticate callers")
}

func (EphemeralKey) head() head { return head{LevelWarn, "mcp.ephemeral_key", false} }

func (e EphemeralKey) addFields(f Fields) {
	f.AddText("key_id", e.KeyID)
	f.AddString("meaning", "requestState is sealed with a random key that only this process has: "+
		"no other replica can serve the answer to a question asked here, and a restart or "+
		"rollout ends every flow that waits for a person; set a shared key (Roundtrip.Sealer, "+
		"KeyringFromEnv) to run more than one process")
}

func (KeysEnabled) head() head { return head{LevelInfo, "mcp.keys_enabled", false} }

func (e KeysEnabled) addFields(f Fields) {
	f.addKey("primary", e.Primary)
	for _, id := range e.Enabled[:min(len(e.Enabled), maxListed)] {
		f.AppendItem(keyText(id))
	}
	f.AddItems("enabled")
}

func (SessionEvicted) head() head { return head{LevelInfo, "mcp.session_evicted", false} }

func (SessionEvicted) countMetrics(c counter) {
	c.add(row{name: "sessions_evicted_total",
		help: "Sessions of older clients that were ended before they expired, to make room."}, 1)
}

func (e SessionEvicted) addFields(f Fields) {
	f.AddMilliseconds("idle_ms", e.Idle)
	f.AddText("limit", e.Limit)
}

func (e RequestForwarded) countMetrics(c counter) {
	c.add(row{name: "forwarded_requests_total",
		help:  "Requests of older clients that were passed on to the replica of their session.",
		first: oneOf("outcome", e.Outcome, forwardOutcomes)}, 1)
}

// head has debug level for refused requests, whose refusal is logged elsewhere.
func (e RequestForwarded) head() head {
	level := LevelInfo
	if e.Outcome != words.ForwardAnswered {
		level = LevelDebug
	}
	return head{level, "mcp.request_forwarded", false}
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

// head is a warning for likely misconfiguration or exhausted limits, info for everyday refusals.
func (e RequestRefused) head() head {
	level := LevelInfo
	switch e.Reason {
	case words.RefusedHost, words.RefusedOrigin, words.RefusedTooLarge, words.RefusedTooSlow,
		words.RefusedUnverified, words.RefusedRequests, words.RefusedSessions,
		words.RefusedOutcomeUnknown, words.RefusedUnreachable, words.RefusedMisdirected:
		level = LevelWarn
	}
	return head{level, "mcp.request_refused", true}
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

func (e RequestRefused) countMetrics(c counter) {
	reason := oneOf("reason", e.Reason, refusals)
	if e.Status == 0 {
		c.add(row{name: "line_refusals_total", help: "Lines of stdio and other streams that were " +
			"refused before any middleware.", first: reason}, 1)
		return
	}
	c.add(row{name: "http_refusals_total", help: "HTTP requests refused before any middleware.",
		first: oneOf("status", strconv.Itoa(e.Status), statuses), second: reason, lazy: true}, 1)
}

func warnIf(condition bool) Level {
	if condition {
		return LevelWarn
	}
	return LevelInfo
}
