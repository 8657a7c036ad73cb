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

// A run is one execution of the handler, one round of its flow. It travels in the
// handler's context, so that helpers work under any host's handler signature.
//
// It is the state of that execution, which two types use. The goroutine that serves
// the call opens it, fills it with answers, and decides its outcome after the handler
// has returned: a [responder]. While the handler runs, its goroutines share what mu
// guards, and ask: an [asker]. They may go on after its return: closed says so, and
// they must not look at the exchange then, which may have gone on to the next run.
type run struct {
	*exchange
	number int       // the round
	opened time.Time // when its answers came
	// ctx is the context of the handler: that of the request with the run as a value, and with a
	// cancellation of its own. It is lazy, because most handlers neither wait for their context nor
	// ask in flow style.
	ctx waiting.Context

	responses      protocol.InputResponses // what the client answered to the run before
	received       protocol.RequestState   // what the client sent, or the author's plain state
	prior          *claims.Claims          // of the run before, nil in a first run
	answersDropped int                     // of the responses
	waited         time.Duration           // from the seal of the state to its arrival
	took           []pushTime              // each of the responses in a session, else nil

	mu      sync.Mutex
	answers []*answer
	room    [1]*answer // for answers: most runs have one at most
	dropped []event.Dropped
	state   json.RawMessage // the author's, nil when absent
	flow    *flowRun        // nil in guard style

	memos    []claims.Memo
	version  string                   // of the flow
	id       [16]byte                 // of the flow, once identified
	saving   sync.Mutex               // orders the journals that a task keeps
	reworded []event.QuestionReworded // answers to another version of the application
	reported int32                    // how many of reworded the observer knows

	identified bool // the id is known
	versioned  bool // the handler's version is known, too
	acted      bool // something has begun that must not be repeated
	closed     bool // the handler has returned
}

func (r *run) asked() []claims.Question {
	if r.prior == nil {
		return nil
	}
	return r.prior.Asked
}

// An asker puts the questions of a run for its handler. The goroutines of the handler use it, while
// the handler runs.
type asker struct{ *run }

// A responder makes the response of a run, or its questions, of what the handler has returned. Only
// the goroutine that serves the call uses it.
type responder struct{ *run }

// askerFrom returns the asker of the run of ctx, without a run if there is none.
func askerFrom(ctx context.Context) asker { return asker{runFrom(ctx)} }

type runKey struct{}

func runFrom(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// Value implements [waiting.Values].
func (r *run) Value(key any) any {
	switch key.(type) {
	case runKey, rpc.IDKey:
		return r
	}
	return nil
}

// RequestID implements [rpc.Named].
func (r *run) RequestID() string { return r.where.Request }

// findAnswerLocked returns the answer recorded under key, nil if there is none. Before the
// handler starts no lock is needed.
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

// answeredKeys lists the keys of all answers in flow style, and nothing in guard style, whose
// authors know them.
func (r *run) answeredKeys() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow == nil {
		return ""
	}
	return r.answeredKeysLocked()
}

// executeHandler calls the handler and decides the response. Both are guarded
// against panics, because deciding still calls the author's code: the text of an
// error, the check of the output, a Sealer.
func (r responder) executeHandler(
	ctx context.Context, handler Handler,
) (result protocol.Result, err error) {
	r.started = true
	defer func() {
		if v := recover(); v != nil {
			result, err = r.answerPanic(ctx, v)
		}
	}()
	result, err = r.invokeHandler(ctx, handler)
	r.reportFindings(ctx, &r.questioner)
	return r.decideOutcome(ctx, result, err)
}

// executeSingleRound is executeHandler for a method that cannot ask. Its handler
// has no round, and must not see that of a request it is served within.
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

// answerPanic is called by the deferred function that recovered v, so that the
// stack shows where the panic began.
func (r responder) answerPanic(ctx context.Context, v any) (protocol.Result, error) {
	r.reportPanic(ctx, v)
	r.reportFlowEnd(ctx, words.EndFailed)
	return nil, rules.InternalError()
}

// invokeHandler calls the handler with the run in its context. If the run is
// decided, a panic that follows is taken for a return.
func (r *run) invokeHandler(
	ctx context.Context, handler Handler,
) (result protocol.Result, err error) {
	r.ctx.Init(ctx)
	r.ctx.SetValues(r)
	defer r.endHandler(ctx, &result, &err)
	result, err = handler(&r.ctx)
	if err == nil && r.ladder != nil {
		(asker{r}).lookForReturned(result)
	}
	if err != nil {
		return asker{r}.repeatHandler(handler, result, err)
	}
	return result, nil
}

// endHandler is called by invokeHandler when the handler has returned or panicked.
func (r *run) endHandler(ctx context.Context, result *protocol.Result, err *error) {
	defer r.closeRun()
	if !r.isDecided() {
		return
	}
	if v := recover(); v != nil {
		if cause, ok := v.(error); !ok || !errors.Is(cause, ErrPending) {
			r.mu.Lock()
			r.acted = true // the handler has not come to where it wanted to
			r.mu.Unlock()
			r.reportPanic(ctx, v)
		}
		*result, *err = nil, ErrPending
	}
}

// isDecided reports whether the outcome of the run is fixed whatever the handler still does or
// returns.
func (r *run) isDecided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flow != nil && (r.flow.asksClient() || r.flow.end != nil)
}

// closeRun marks the run as over: goroutines that the handler left behind cannot ask any more,
// and the questions that they have open are withdrawn.
func (r *run) closeRun() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.ctx.Cancel(nil)
}
