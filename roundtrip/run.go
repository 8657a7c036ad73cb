package roundtrip

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rondo-mcp/rondo/internal/lazyctx"
	"github.com/rondo-mcp/rondo/internal/requestid"
	"github.com/rondo-mcp/rondo/protocol"
)

// A run is one execution of the handler, one round of its flow. It travels in the
// handler's context, so that helpers work under any host's handler signature.
//
// The goroutine that serves the call opens it, fills it with answers, and decides
// its outcome after the handler has returned. While the handler runs, its
// goroutines share what mu guards. They may go on after its return: closed says
// so, and they must not look at the exchange then, which may have gone on to the
// next run.
type run struct {
	*exchange
	number int            // the round
	ctx    handlerContext // of the handler

	responses      protocol.InputResponses // what the client answered to the run before
	received       protocol.RequestState   // what the client sent, or the author's plain state
	prior          *claims                 // of the run before, nil in a first run
	answersDropped int                     // of the responses
	localState     []byte                  // claims for the next run of the call, in legacy revisions
	requested      Event                   // that its questions go out, nil if nobody observes

	mu      sync.Mutex
	answers []*answer
	asked   []pendingQuestion // in the run before
	dropped []Dropped
	state   json.RawMessage // the author's, nil when absent
	flow    *flow           // nil in guard style
	closed  bool            // the handler has returned

	memos      []memo
	version    string   // of the flow
	versioned  bool     // the handler's version is known, too
	id         [16]byte // of the flow, once identified
	identified bool
}

type runKey struct{}

// withoutRun hides the round of a request that ctx is served within.
func withoutRun(ctx context.Context) context.Context {
	return context.WithValue(ctx, runKey{}, (*run)(nil))
}

func runFrom(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// Number returns which leg of a flow the handler is serving: 1 for the
// original request, 2 for its first retry, and so on. It is 0 outside a round.
func Number(ctx context.Context) int {
	if r := runFrom(ctx); r != nil {
		return r.number
	}
	return 0
}

// RequestID implements [requestid.Named].
func (r *run) RequestID() string { return r.where.Request }

// findAnswerLocked returns the answer recorded under key, nil when there is none.
func (r *run) findAnswerLocked(key string) *answer {
	for _, a := range r.answers {
		if a.key == key {
			return a
		}
	}
	return nil
}

// answeredKeysLocked lists the keys of all answers.
func (r *run) answeredKeysLocked() string {
	names := make([]string, len(r.answers))
	for i, a := range r.answers {
		names[i] = a.key
	}
	return strings.Join(names, ", ")
}

// answeredKeys lists them for a flow that is given up, in flow style only: guard style
// knows its own.
func (r *run) answeredKeys() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flow == nil {
		return ""
	}
	return r.answeredKeysLocked()
}

// execute calls the handler and decides what the client gets. Both are guarded
// against panics, because deciding still calls the author's code: the text of an
// error, the check of the output, a Sealer.
func (r *run) execute(ctx context.Context, handler Handler) (result protocol.Result, err error) {
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

// executeSingle is execute for a request of a method that cannot ask. Its handler
// has no round, and must not see that of a request it is served within.
func (r *run) executeSingle(ctx context.Context, handler Handler) (result protocol.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			result, err = r.answerPanic(ctx, v)
		}
	}()
	result, err = handler(withoutRun(ctx))
	return r.decideSingleRound(ctx, result, err)
}

// answerPanic is called by the deferred function that recovered v, so that the
// stack shows where the panic began.
func (r *run) answerPanic(ctx context.Context, v any) (protocol.Result, error) {
	r.reportPanic(ctx, v)
	r.reportFlowEnd(ctx, EndFailed)
	return nil, internalError()
}

// invokeHandler calls the handler with the run in its context. If the run is
// decided, a panic that follows is taken for a return.
func (r *run) invokeHandler(ctx context.Context, handler Handler) (result protocol.Result, err error) {
	r.ctx.Context, r.ctx.run = ctx, r
	defer r.closeRun()
	defer func() {
		if !r.isDecided() {
			return
		}
		if v := recover(); v != nil {
			if cause, ok := v.(error); !ok || !errors.Is(cause, ErrPending) {
				r.reportPanic(ctx, v)
			}
			result, err = nil, ErrPending
		}
	}()
	return handler(&r.ctx)
}

// isDecided reports whether the run is settled whatever the handler does.
func (r *run) isDecided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flow != nil && (r.flow.asksClient() || r.flow.end != nil)
}

// closeRun ends the run: goroutines that the handler left behind ask nothing any
// more.
func (r *run) closeRun() {
	r.mu.Lock()
	r.closed = true
	r.withdrawLocked(context.Canceled)
	r.mu.Unlock()
	r.ctx.endRun()
}

// handlerContext is the context of a handler: that of the request, with the round
// as a value, and an end of its own. What it takes to end is made when somebody
// asks for it, because most handlers never do.
type handlerContext struct {
	context.Context
	run         *run
	cancellable atomic.Pointer[cancellableContext]
	over        atomic.Bool

	// Guarded by the mutex of the round.
	waits []*lazyctx.Context // that end with it, see attach
}

type cancellableContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// ensureCancellable returns the context that can end, and makes it if need be.
func (c *handlerContext) ensureCancellable() *cancellableContext {
	if e := c.cancellable.Load(); e != nil {
		return e
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	e := &cancellableContext{ctx, cancel}
	if !c.cancellable.CompareAndSwap(nil, e) {
		cancel(nil)
		return c.cancellable.Load()
	}
	if c.over.Load() {
		cancel(nil)
	}
	return e
}

func (c *handlerContext) cancelRun(cause error) { c.ensureCancellable().cancel(cause) }

// endRun releases what the context holds of the request's.
func (c *handlerContext) endRun() {
	c.over.Store(true)
	if e := c.cancellable.Load(); e != nil {
		e.cancel(nil)
	}
}

func (c *handlerContext) Done() <-chan struct{} { return c.ensureCancellable().Done() }

// current returns what speaks for c: itself can end only once somebody has asked
// for that, or the handler has returned.
func (c *handlerContext) current() context.Context {
	if e := c.cancellable.Load(); e != nil {
		return e
	}
	if c.over.Load() {
		return c.ensureCancellable()
	}
	return c.Context
}

func (c *handlerContext) Err() error { return c.current().Err() }

// Value also answers package context, which looks for the cause of an end among
// the values.
func (c *handlerContext) Value(key any) any {
	switch key.(type) {
	case runKey:
		return c.run
	case requestid.Key:
		return c.run
	}
	return c.current().Value(key)
}
