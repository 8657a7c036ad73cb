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

// This file has what hosted servers, gateways, transports and middleware use, and authors of
// handlers do not. [Funnel] is in funnel.go.

// A Call is one arrival of a multi round-trip request: the first leg of a flow
// or a retry. Everything in it may be hostile; nothing is changed.
type Call struct {
	Version protocol.Version
	Method  string
	Target  string // the name of the tool or prompt, or the URI
	// Arguments is the JSON object of arguments, nil when absent.
	Arguments    json.RawMessage
	Capabilities protocol.ClientCapabilities
	// Principal is who calls; the zero value is anonymous.
	Principal protocol.Principal
	// Client is the name that the client gives itself, for the observer alone.
	Client *protocol.Implementation
	// Responses and State are the retry members of the request. Calls of legacy
	// revisions have none: what a host passes there is dropped unread.
	Responses protocol.InputResponses
	State     protocol.RequestState
	// Credential is what the caller authenticates with, as it came: the value of the Authorization
	// header, for example. Where Principal is anonymous, states are bound to it: a retry with
	// another credential is refused, also with a renewed one of the same caller. Otherwise it
	// decides nothing. It is kept out of events and, but for a keyed digest, out of states.
	Credential string
	// RequestID is the id of the request in events, see [RequestID]. Empty: that
	// of the context, or a new one.
	RequestID string
	// Push puts questions to the client of a legacy revision. Nil where there
	// is no session to carry them; it is not used in modern revisions.
	Push Pusher
	// Session tells the sessions of one funnel apart, for Options.Limits.WaitingPerPrincipal:
	// a pointer to the session or its id, which can be compared. Nil: the call belongs to none.
	Session any
	// Heartbeat sends one progress notification on the call's own token, while the call waits for a
	// person, after 2 s and then every 15 s: clients that give up what is silent for a minute wait
	// as long as a person needs. The funnel makes one call at a time and none once the wait is
	// over; ctx has the values of the call's context and ends with the wait. Nil: the client asked
	// for no progress.
	Heartbeat func(ctx context.Context)
	// AcceptUnsolicited lets handlers read answers to questions that this flow has
	// not asked, marked Unsolicited, for clients that lose the state.
	AcceptUnsolicited bool
	// Authenticates means that callers of the host can authenticate. Anonymous ones then leave room
	// for those who do, also before the first of them has called.
	Authenticates bool
	// KeptBytes is how many bytes the host keeps for the call, while it waits for a person, beside
	// its Arguments: of the _meta of the request, for example. All calls
	// that wait may have 256 MiB of both together, and one authenticated principal a quarter.
	KeptBytes int32
	// Task is for package server/tasks.
	Task *TaskCall
	// CheckOutput, if not nil, validates the structured content (nil when
	// absent) of a tool that completes without an error.
	CheckOutput func(structured json.RawMessage) error
}

// A TaskCall is what a [Call] has to do with tasks: Run is set, or Begin and Find.
type TaskCall struct {
	// Begin keeps a task that begins here, with the journal for its first run, and returns the
	// outcome of the call: a [*protocol.CreateTaskResult], or the [*protocol.CallToolResult] of a
	// task that was over soon. flow is the id of the flow: a call that is sent again has the same,
	// and must get the same handle. An error that is no [*protocol.Error] says that the task cannot
	// be kept now.
	Begin func(ctx context.Context, flow [16]byte, journal []byte) (
		protocol.CallToolOutcome, error)
	// Find returns the handle of the task that the flow has begun, nil if it has begun none. It
	// is called where a [store.Guard] knows of a request only that it was served.
	Find func(ctx context.Context, flow [16]byte) (*protocol.CreateTaskResult, error)
	// Run means that the call is a run of a task that has begun.
	Run *TaskRun
}

// A TaskRun is one run of a task: a round whose journal is in a record of the host instead of a
// sealed state. The answers are the Responses of the [Call].
type TaskRun struct {
	// Journal is what Begin, Save or Next said last.
	Journal []byte
	// Waited is how long each of the Responses took to come.
	Waited []time.Duration
	// Save keeps a journal for the case that this run does not come to its end. The run continues
	// when it returns, and ends when it fails: then the host must drop the outcome of the run. One
	// call at a time.
	Save func(ctx context.Context, journal []byte) error
	// Fits reports whether the host can keep an encoded result. Functions of [OnCommit] do not run
	// for one that it cannot.
	Fits func(result []byte) bool

	// Next is set when the run ends with questions, or waits: the journal of the next run, which
	// comes with the answers.
	Next []byte
	// WaitsFor is set when the run waits for something that is no question: its keys. The next
	// run looks again, and the result of this one means nothing.
	WaitsFor []string
	// Message is what the person is to read meanwhile, empty for nothing.
	Message string
}

// A Handler runs one round of a request. It may be called several times in a
// flow, each time from its start.
type Handler func(ctx context.Context) (protocol.Result, error)

// A Pusher puts a question to the client while a request runs. Connections of
// legacy revisions have one; calls may overlap.
type Pusher interface {
	// Push sends the question and waits for the answer, a bare result. It calls extend whenever the
	// client reports progress on the question. It returns when ctx ends, and then notifies the
	// client that the question is withdrawn. An [*protocol.Error] is what the client said instead
	// of an answer; any other error means that it could not be asked. Ctx has the values of the
	// request, and not always those of the handler's context.
	//
	// Writing a question may take a while: a Pusher that knows when it was written calls
	// written before it returns, and the last call counts. The time of Options.MinHumanTime
	// begins then, or with Push.
	Push(ctx context.Context, question protocol.InputRequest, extend, written func()) (
		json.RawMessage, error)
}

// A VisitCompleter is a [Pusher] that can tell clients of revision 2025-11-25 that
// the visit to a URL which was asked for under an id is finished.
type VisitCompleter interface {
	CompleteVisit(ctx context.Context, elicitationID string) error
}

// AskRequest asks a question given as the wire has it and returns the bare result: it is what hosts
// of another SDK's handlers put in the place of a call to the client. Unlike [Ask] it does not take
// a refusal for an error but returns it, so that {"action":"decline"} comes out as the client said
// it. The content of an accepted form has been checked and has its defaults filled in. The result
// is to be read with the Decode*Result functions of package protocol.
//
// The question must be the same in every round, too. Where Ask would ask another one under the key
// once more, AskRequest ends the flow with an error for client and observer, since what handlers of
// an SDK have that is fresh in a question is fresh in each round ([Nonce] and [Memo] keep it).
//
// Errors are those of Ask but for the refusals. Adapters whose callers have no
// keys must make them, the same in every round: the ordinal of the question in
// the run and a digest of it will do where nothing is asked concurrently.
func AskRequest(ctx context.Context, key string, request protocol.InputRequest,
	opts ...QuestionOption) (json.RawMessage, error) {
	return newRequestAsk(key, request, opts).askRequest(ctx)
}

// RefusedAction returns the action with which the client refused the form or visit key, as it sent
// it, and false if it has not: for SDKs that have no word for [Unseen]. The refusal counts as read.
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

// WithoutAnswers keeps the answers so far out of the state, which has a bound: for hosts that have
// passed them on and whose next questions have other keys.
func WithoutAnswers() Item { return itemFunc(func(d *draft) { d.forgets = true }) }

// AskUnkeyed is [AskRequest] for handlers whose questions have no keys, such as those that call the
// SDK's own methods. Each call is a question of its own, also where the person was asked the same
// before in this run.
//
// Where the handler runs again with an answer, the answer belongs to the question with the same
// content. Of several with the same content it is used only if everything that was asked before it
// is the same, in the same order. Otherwise, or if the handler asks another question in place of
// one whose answer is there, the flow ends with an error for client and observer, and nothing is
// asked. What changes in a question must be kept with [Memo] or [Nonce].
//
// A refusal must reach the handler: a run that would complete without coming to a question that the
// person has refused ends as refused, because what the handler looks at before it asks has changed
// since. What such a run has done stays done, but for [OnCommit], whose functions do not run.
//
// A round has one such question. Different questions may be asked from several goroutines; they are
// asked one after the other. Equal ones have no order there and end the flow: they need keys.
//
// The keys on the wire are question-1, question-2 and so on in the order of asking, with
// concurrent- before them where the goroutine of the handler did not ask. Handlers that name
// questions themselves must not use these.
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
	u, err := r.unkeyedQuestions()
	if err != nil {
		return nil, err
	}
	if !r.askingMode().returnsQuestions() {
		return AskRequest(ctx, u.nextKey(), request, opts...)
	}
	// A question that nobody can be asked has no place among the others.
	if err := r.checkOptional(ctx, &q); err != nil {
		return nil, err
	}
	asked := unkeyedQuestion{concurrent: !CalledByHandler()}
	if asked.content, err = q.identifyContent(); err != nil {
		return nil, r.endWithError(err)
	}
	// No call waits for a person here: the mutex is held for a moment.
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

// PushRequest puts one question to the client of a session while the handler of ctx waits, for
// hosts whose handlers were written for sessions. It is [AskRequest] without a key and without
// rounds: a question is sent at once, and each call is a question of its own. Gate, limits, checks
// and errors are the same.
//
// Toward a modern revision it sends nothing and returns a [*PushError], as it does where the
// connection or the client cannot be asked. Any failure to ask ends the run: the handler's context
// is cancelled, nothing more is asked, and the client gets a refusal that says why, whatever the
// handler returns. A question that the handler itself withdraws, by a context of its own that ends,
// ends nothing.
//
// The keys in events are push-1, push-2 and so on in the order of asking. Calls may overlap.
func PushRequest(ctx context.Context, request protocol.InputRequest) (json.RawMessage, error) {
	a, err := preparePush(ctx, request)
	if err != nil {
		return nil, err
	}
	return a.askRequest(ctx)
}

// WithoutRound returns ctx outside of any round: for hosts whose handlers go on after the call that
// began them, and cannot ask with it.
func WithoutRound(ctx context.Context) context.Context {
	return context.WithValue(ctx, runKey{}, (*run)(nil))
}

// WithRoundOf returns ctx as part of the round that handler, the context of a
// handler, is of: for hosts whose calls that push may be given any context.
func WithRoundOf(ctx, handler context.Context) context.Context {
	r := runFrom(handler)
	if r == nil || r == runFrom(ctx) {
		return ctx
	}
	return context.WithValue(ctx, runKey{}, r)
}

// CalledByHandler reports whether a handler runs further up on this goroutine, however deep the
// stack is: keys and order of questions that the author gave no keys depend on it. It walks the
// stack, which takes microseconds.
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

// ContinueHandler runs f as part of a handler, on another goroutine than the one that the handler
// was called on: for hosts whose SDK has goroutines of its own. Questions that f asks are in the
// order of the handler's.
//
//go:noinline
func ContinueHandler(f func()) { f() }

// WatchWaiting returns a context under which tell is called with true when a call begins to wait
// for a person, and with false when it goes on. A call waits while any of its questions is with the
// client, however many goroutines ask; calls of modern revisions wait in [Await] only. Middleware
// that limits or measures work uses it to leave that time out:
//
//	ctx = roundtrip.WatchWaiting(ctx, clock.SetPaused)
//	return next(ctx, request)
//
// tell is called by one goroutine at a time, alternately with true and false, and with false before
// the handler goes on; with false also after the call, where a goroutine of its handler waited on.
// It must return soon and must not ask.
func WatchWaiting(ctx context.Context, tell func(waiting bool)) context.Context {
	return waiting.WithWatch(ctx, tell)
}

// RequestID returns the id of the request that ctx belongs to, as events and log entries have it,
// for authors who log as well. It is random, names one leg of a flow and means nothing to the
// client. It is empty where nothing observes or logs.
func RequestID(ctx context.Context) string { return rpc.RequestID(ctx) }

// A Tracer ties rounds and questions together in a tracing system. Package telemetry has one for
// OpenTelemetry. Its methods are called with a context that has the values of the request, and
// must return soon. Calls may overlap.
type Tracer interface {
	// CurrentSpan returns the span of ctx, in which questions are about to be returned. It
	// travels in the sealed state, or with the task that begins. Zero, as for a span that is not
	// sampled: nothing travels.
	CurrentSpan(ctx context.Context) SpanRef
	// LinkSpan is called when the state of a request has been verified: before is the span in
	// which its questions were asked, on whichever replica, or the task that runs was begun.
	LinkSpan(ctx context.Context, before SpanRef)
	// BeginQuestion is called before a question is pushed to the client of a session. It returns
	// the question to send, which may differ in its _meta, and a function that is called once,
	// with the error where there is no answer.
	BeginQuestion(ctx context.Context, question protocol.InputRequest) (
		protocol.InputRequest, func(error))
	// CarrySpan returns ctx with the span of request, for hosts that serve a request by calls under
	// a context of their own, as gateways do.
	CarrySpan(ctx, request context.Context) context.Context
}

// A SpanRef names a span of a trace, as W3C Trace Context does. The zero value names none.
type SpanRef struct {
	Trace [16]byte
	Span  [8]byte
}
