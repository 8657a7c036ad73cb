package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/protocol"
)

// The API for hosted servers, gateways, transports and middleware; [Funnel] is in funnel.go.

// A Call is one leg of a flow: a request or a retry. It may be hostile, and is not modified.
type Call struct {
	Version      protocol.Version
	Method       string
	Target       string          // the name of the tool or prompt, or the URI
	Arguments    json.RawMessage // JSON object, nil when absent
	Capabilities protocol.ClientCapabilities
	Principal    protocol.Principal       // the caller; zero: anonymous
	Client       *protocol.Implementation // self-reported name, for the observer only
	// Responses and State are the retry members of the request; ignored in legacy revisions.
	Responses protocol.InputResponses
	State     protocol.RequestState
	// Credential authenticates the caller, verbatim, such as the Authorization header. States of
	// anonymous callers are bound to it: a retry with another credential is refused, even a renewed
	// one. Events never contain it; states contain only a keyed digest.
	Credential string
	// RequestID is the id in events, see [RequestID]. If empty, it is the context's, or a new one.
	RequestID string
	// Push asks the client of a legacy revision. Nil means no session. Unused in modern revisions.
	Push Pusher
	// Session is a comparable value, such as a pointer or an id, that identifies the session in the
	// funnel, for Options.Limits.WaitingPerPrincipal. Nil means that there is no session.
	Session any
	// Heartbeat sends one progress notification on the call's token. It is called while the call
	// waits for a person, after 2 s and then every 15 s, to keep clients from timing out. Calls do
	// not overlap, and stop when the wait ends; ctx has the values of the call's context and ends
	// with the wait. Nil means that the client did not ask for progress.
	Heartbeat func(ctx context.Context)
	// AcceptUnsolicited lets handlers read unrequested answers, marked Unsolicited.
	AcceptUnsolicited bool
	// Authenticates means that the host can authenticate callers; capacity is reserved for them.
	Authenticates bool
	// KeptBytes is the host's memory for a waiting call besides Arguments, such as _meta. Waiting
	// calls share 256 MiB for both; one authenticated principal may use a quarter of that.
	KeptBytes int32
	Task      *TaskCall // for package server/tasks
	// CheckOutput, if not nil, checks a successful tool's structured content (nil when absent).
	CheckOutput func(structured json.RawMessage) error
}

// A TaskCall connects a [Call] to tasks: either Run is set, or Begin and Find.
type TaskCall struct {
	// Begin stores a new task with the journal for its first run, and returns the outcome of the
	// call: a [*protocol.CreateTaskResult], or the [*protocol.CallToolResult] of a task that ended
	// soon. flow is the id of the flow: a repeated call has the same id and must get the same
	// handle. An error other than a [*protocol.Error] means that the task cannot be stored now.
	Begin func(ctx context.Context, flow [16]byte, journal []byte) (
		protocol.CallToolOutcome, error)
	// Find returns the handle of the task that the flow has begun, or nil. It is called when a
	// [store.Guard] knows that a request was served, but not with which result.
	Find func(ctx context.Context, flow [16]byte) (*protocol.CreateTaskResult, error)
	Run  *TaskRun // a run of a task that has begun
}

// A TaskRun is one run of a task: a round whose journal is in a record of the host instead of a
// sealed state. The answers are the Responses of the [Call].
type TaskRun struct {
	Journal []byte          // the journal last passed to Begin or Save, or left in Next
	Waited  []time.Duration // how long each of the Responses took
	// Save stores a journal in case this run does not finish. The run continues when Save returns;
	// if it fails the run ends, and the host must drop its outcome. Calls do not overlap.
	Save func(ctx context.Context, journal []byte) error
	// Fits reports whether the host can store an encoded result; if not, [OnCommit] has no effect.
	Fits func(result []byte) bool

	// Next, set when the run ends with questions or waits, is the journal of the next run.
	Next []byte
	// WaitsFor, set when the run waits for something other than a question, has the keys of such
	// waits. The next run checks them again; the result of this run is meaningless.
	WaitsFor []string
	Message  string // for the user meanwhile; may be empty
}

// A Handler runs one round of a request. It may be called several times in a flow, from its start.
type Handler func(ctx context.Context) (protocol.Result, error)

// A Pusher asks the client of a legacy revision while a request runs. Calls may overlap.
type Pusher interface {
	// Push sends the question and waits for the answer, a bare result. It calls extend whenever the
	// client reports progress on the question. When ctx ends it withdraws the question from the
	// client. An [*protocol.Error] is the client's response; any other error means that it could
	// not ask. Ctx has the request's values, not always those of the handler's context.
	//
	// A Pusher that knows when the question was written calls the function written then, before it
	// returns. Options.MinHumanTime runs from the last such call, or else from the call of Push.
	Push(ctx context.Context, question protocol.InputRequest, extend, written func()) (
		json.RawMessage, error)
}

// A VisitCompleter is a [Pusher] that can notify clients of 2025-11-25 that a visit is finished.
type VisitCompleter interface {
	CompleteVisit(ctx context.Context, elicitationID string) error
}

// AskRequest asks a question in wire form and returns the bare result. Programs that host another
// SDK's handlers call it instead of the client. Unlike [Ask] it returns a refusal as a result, such
// as {"action":"decline"}, not as an error. The content of an accepted form is checked and has its
// defaults filled in. Decode the result with the Decode*Result functions of package protocol.
//
// The question must be the same in every round. Where Ask would ask a changed question once more,
// AskRequest ends the flow with an error for client and observer, because a value that an SDK's
// handler generates anew changes in every round ([Nonce] and [Memo] keep it).
//
// Other errors are as in Ask. Adapters whose callers have no keys must derive stable keys: the
// question's digest and its ordinal in the run suffice unless questions are concurrent.
func AskRequest(ctx context.Context, key string, request protocol.InputRequest,
	opts ...QuestionOption) (json.RawMessage, error) {
	return newRequestAsk(key, request, opts).askRequest(ctx)
}

// RefusedAction returns the action with which the client refused the form or visit key, and false
// if it has not refused it. It is for SDKs without a word for [Unseen]. The refusal counts as read.
func RefusedAction(ctx context.Context, key string) (protocol.ElicitAction, bool) {
	if r := runFrom(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if a := r.findAnswerLocked(key); a != nil && a.asRefusal() != nil {
			a.checked = true // the caller passes it on
			return actionOf(a.asRefusal()), true
		}
	}
	return "", false
}

// WithoutAnswers leaves the answers so far out of the state, whose size is limited. It is for hosts
// that have passed the answers on and whose next questions have other keys.
func WithoutAnswers() Item { return itemFunc(func(d *draft) { d.forgets = true }) }

// AskUnkeyed is [AskRequest] for handlers whose questions have no keys, such as those that call the
// SDK's own methods. Each call is a new question, even if its content repeats.
//
// When the handler runs again, an answer belongs to the question with the same content; if several
// questions have it, all questions before must be the same, in the same order. Otherwise, or if
// another question is asked instead of an answered one, the flow ends with an error for client and
// observer. Keep varying parts of a question with [Memo] or [Nonce].
//
// A run that would complete without asking a refused question again ends as refused, because the
// handler's input has changed. Its effects remain, but functions of [OnCommit] do not run.
//
// Each round has one such question. Different questions of several goroutines are asked one after
// the other. Equal ones need keys; without keys they end the flow, because their order is unknown.
//
// The keys on the wire are question-1, question-2, ..., prefixed with concurrent- if asked outside
// the handler's goroutine. Handlers must not use these keys themselves.
func AskUnkeyed(ctx context.Context, request protocol.InputRequest,
	opts ...QuestionOption) (json.RawMessage, error) {
	r := askerFrom(ctx)
	if r.run == nil {
		return nil, noRound(ctx)
	}
	var q Question
	q.readRequest("question", request)
	if q = q.applyOptions(opts); q.err != nil {
		return nil, r.endWithError(q.err)
	}
	if !r.askingMode().returnsQuestions() {
		key, err := r.nextKey(unkeyedPrefix, &q)
		if err != nil {
			return nil, err
		}
		return AskRequest(ctx, key, request, opts...)
	}
	u, err := r.unkeyedQuestions()
	if err != nil {
		return nil, err
	}
	// This comes first: a question that cannot be asked takes no place in the order.
	if err := r.checkOptional(ctx, &q); err != nil {
		return nil, err
	}
	asked := unkeyedQuestion{concurrent: !CalledByHandler()}
	if asked.content, err = q.identifyContent(); err != nil {
		return nil, r.endWithError(err)
	}
	// Held briefly: no call waits for a person here.
	u.asking.Lock()
	defer u.asking.Unlock()
	if err := r.placeUnkeyed(u, &asked); err != nil {
		return nil, err
	}
	raw, err := AskRequest(ctx, asked.formatKey(), request, opts...)
	if errors.Is(err, ErrPending) {
		r.mu.Lock()
		defer r.mu.Unlock()
		u.pending = &asked
	}
	return raw, err
}

// PushRequest sends one question to the client of a session while the handler of ctx waits, for
// hosts whose handlers were written for sessions. It is [AskRequest] without keys and rounds: each
// call is a new question, sent at once. Gate, limits, checks and errors are the same.
//
// In a modern revision, or if the client cannot be asked, it sends nothing and returns a
// [*PushError]. Any failure to ask ends the run: the handler's context is cancelled, nothing more
// is asked, and the client gets a refusal with the reason, whatever the handler returns. A question
// withdrawn by the handler, whose own context ends, does not end the run.
//
// The keys in events are push-1, push-2 and so on in the order of asking. Calls may overlap.
func PushRequest(ctx context.Context, request protocol.InputRequest) (json.RawMessage, error) {
	a, err := preparePush(ctx, request)
	if err != nil {
		return nil, err
	}
	return a.askRequest(ctx)
}

// WithoutRound returns ctx without its round: for handlers that outlive their call.
func WithoutRound(ctx context.Context) context.Context {
	return context.WithValue(ctx, runKey{}, (*run)(nil))
}

// WithRoundOf returns ctx with the round of the context handler, for hosts with their own contexts.
func WithRoundOf(ctx, handler context.Context) context.Context {
	r := runFrom(handler)
	if r == nil || r == runFrom(ctx) {
		return ctx
	}
	return context.WithValue(ctx, runKey{}, r)
}

// CalledByHandler reports whether a handler runs further up on this goroutine, at any depth: keys
// and order of unkeyed questions depend on it. Walking the stack takes microseconds.
func CalledByHandler() bool {
	for size := 64; ; size *= 4 {
		callers := make([]uintptr, size)
		n := runtime.Callers(2, callers)
		frames := runtime.CallersFrames(callers[:n])
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if strings.HasSuffix(frame.Function, "/roundtrip.(*run).invokeHandler") ||
				strings.HasSuffix(frame.Function, "/roundtrip.ContinueHandler") {
				return true
			}
		}
		if n < size {
			return false
		}
	}
}

// ContinueHandler runs f as part of a handler on another goroutine: for hosts whose SDK has
// goroutines of its own. Questions of f are ordered with the handler's.
//
//go:noinline
func ContinueHandler(f func()) { f() }

// WatchWaiting returns a context under which tell(true) is called when a call begins to wait for a
// person and tell(false) when it goes on: while any of its questions is open, and in modern
// revisions in [Await] only. Middleware that limits or measures work uses it to exclude that time:
//
//	ctx = roundtrip.WatchWaiting(ctx, clock.SetPaused)
//	return next(ctx, request)
//
// Calls of tell do not overlap; true and false alternate. False comes before the handler goes on,
// or after the call if one of its goroutines still waits. tell must return soon and must not ask.
func WatchWaiting(ctx context.Context, tell func(waiting bool)) context.Context {
	return waiting.WithWatch(ctx, tell)
}

// RequestID returns the id of the request of ctx, as in events and log entries. It is random, names
// one leg of a flow, and is empty unless something observes or logs.
func RequestID(ctx context.Context) string { return rpc.RequestID(ctx) }

// A Tracer links rounds and questions in traces; package telemetry has one for OpenTelemetry. Its
// methods get the request's values in ctx, must return soon, and may be called concurrently.
type Tracer interface {
	// CurrentSpan returns the span of ctx, in which questions are about to be returned. It travels
	// in the state, or with the task that begins; a zero (unsampled) span does not.
	CurrentSpan(ctx context.Context) SpanRef
	// LinkSpan is called when the state of a request has been verified. before is the span, on any
	// replica, in which its questions were asked or its task was begun.
	LinkSpan(ctx context.Context, before SpanRef)
	// BeginQuestion is called before a question is pushed. It returns the question to send, which
	// may differ in _meta, and a function to be called once, with the error if there is no answer.
	BeginQuestion(ctx context.Context, question protocol.InputRequest) (
		protocol.InputRequest, func(error))
	// CarrySpan returns ctx with the span of request, for hosts that call under another context.
	CarrySpan(ctx, request context.Context) context.Context
}

// A SpanRef names a span of a trace as in W3C Trace Context. The zero value names no span.
type SpanRef struct {
	Trace [16]byte
	Span  [8]byte
}
