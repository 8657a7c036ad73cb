package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/rondo-mcp/rondo/internal/limits/waiting"
	"github.com/rondo-mcp/rondo/internal/state/claims"
	"github.com/rondo-mcp/rondo/internal/wire/rpc"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A run is one execution of the handler, one round of its flow, and is in the handler's context.
//
// The goroutine that serves the call opens the run, fills in answers, and decides the outcome after
// the handler has returned: it is a [responder]. The handler's goroutines are [asker]s, and share
// what mu guards. Once closed is set they must not use the exchange, which may be in its next run.
type run struct {
	*exchange
	number int       // the round
	opened time.Time // arrival of its answers
	// ctx is the handler's context: the request's, with the run as a value and its own
	// cancellation. It is lazy, because most handlers neither wait on it nor use flow style.
	ctx waiting.Context

	responses      protocol.InputResponses // of the client, to the previous run
	received       protocol.RequestState   // from the client, or the author's plain state
	prior          *claims.Claims          // of the run before, nil in a first run
	answersDropped int                     // of the responses
	waited         time.Duration           // from the seal of the state to its arrival
	took           []pushTime              // by response, in a session

	mu      sync.Mutex
	answers []*answer
	room    [1]*answer // of answers: most runs have at most one
	dropped []event.Dropped
	state   json.RawMessage // the author's, nil when absent
	flow    *flowRun        // nil in guard style

	memos    []claims.Memo
	version  string                   // of the flow
	id       [16]byte                 // of the flow, once identified
	saving   sync.Mutex               // orders a task's journals
	reworded []event.QuestionReworded // answers to another version of the application
	reported int32                    // how many of reworded were reported

	identified bool // id is known
	versioned  bool // the handler's version is known
	acted      bool // something was begun that must not be repeated
	inPlace    bool // a question was answered while the handler ran
	closed     bool // the handler has returned
	kept       bool // resumed from the page's store
}

func (r *run) asked() []claims.Question {
	if r.prior == nil {
		return nil
	}
	return r.prior.Asked
}

// An asker asks the questions of a running handler, on its goroutines.
type asker struct{ *run }

// A responder makes the response of a run, on the goroutine that serves the call.
type responder struct{ *run }

func askerFrom(ctx context.Context) asker { return asker{runFrom(ctx)} }

type runKey struct{}

func runFrom(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

func (r *run) Value(key any) any {
	switch key.(type) {
	case runKey, rpc.IDKey:
		return r
	}
	return nil
}

func (r *run) RequestID() string { return r.where.Request }

// findAnswerLocked returns the answer under key or nil. Before the handler starts it needs no lock.
func (r *run) findAnswerLocked(key string) *answer {
	for _, a := range r.answers {
		if a.key == key {
			return a
		}
	}
	return nil
}

func (r *run) answeredKeysLocked() string {
	return joinKeys(r.answers, func(a *answer) string { return a.key })
}

// answeredKeys lists the keys answered in flow style; guard-style authors know theirs.
func (r *run) answeredKeys() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow == nil {
		return ""
	}
	return r.answeredKeysLocked()
}

// executeHandler calls the handler and decides the response, both guarded against panics, because
// deciding calls the author's code too: error texts, output checks, a Sealer.
func (r responder) executeHandler(
	ctx context.Context, handler Handler,
) (result protocol.Result, err error) {
	r.started = true
	defer func() {
		if v := recover(); v != nil {
			result, err = r.answerPanic(ctx, v)
		}
	}()
	if r.ladder != nil {
		r.ladder.keep = nil
	}
	result, err = r.invokeHandler(ctx, handler)
	r.keepAgreed(ctx, err)
	r.reportFindings(ctx, &r.questioner)
	result, err = r.decideOutcome(ctx, result, err)
	if _, asks := result.(*protocol.InputRequiredResult); asks && r.ladder != nil {
		r.ladder.taken = nil // the flow has gone on
	}
	return result, err
}

// executeSingleRound is executeHandler for methods that cannot ask, without an enclosing round.
func (r responder) executeSingleRound(
	ctx context.Context, handler Handler,
) (result protocol.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = r.answerPanic(ctx, v)
		}
	}()
	result, err = handler(WithoutRound(ctx))
	return r.decideSingleRound(ctx, result, err)
}

// answerPanic must be called by the deferred function that recovered v, for the stack trace.
func (r responder) answerPanic(ctx context.Context, v any) (protocol.Result, error) {
	r.reportPanic(ctx, v)
	r.reportFlowEnd(ctx, words.EndFailed)
	return nil, rules.InternalError()
}

// invokeHandler calls the handler. A panic in a decided run counts as a return.
func (r *run) invokeHandler(
	ctx context.Context, handler Handler,
) (result protocol.Result, err error) {
	r.startContext(ctx)
	if r.ladder != nil {
		r.ladder.forgetOpen()
	}
	defer r.endHandler(ctx, &result, &err)
	result, err = handler(&r.ctx)
	if err == nil && r.ladder != nil {
		(asker{r}).openReturned(result)
	}
	if err != nil {
		return asker{r}.repeatHandler(handler, result, err)
	}
	return result, nil
}

// startContext makes the handler's context, once.
func (r *run) startContext(ctx context.Context) {
	if r.ctx.Parent() == nil {
		r.ctx.Init(ctx)
		r.ctx.SetValues(r)
	}
}

func (r *run) endHandler(ctx context.Context, result *protocol.Result, err *error) {
	defer r.closeRun()
	if !r.isDecided() {
		return
	}
	if v := recover(); v != nil {
		if cause, ok := v.(error); !ok || !errors.Is(cause, ErrPending) {
			r.mu.Lock()
			r.acted = true // the handler did not finish its work
			r.mu.Unlock()
			r.reportPanic(ctx, v)
		}
		*result, *err = nil, ErrPending
	}
}

// isDecided reports whether the outcome is fixed, whatever the handler does.
func (r *run) isDecided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flow != nil && (r.flow.asksClient() || r.flow.end != nil)
}

// closeRun ends the run: it withdraws open questions, and goroutines left behind cannot ask.
func (r *run) closeRun() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.ctx.Cancel(nil)
}
