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

// run is one run of a handler: what was answered so far, the author's state
// and which leg this is. It travels in the handler's context, so that helpers
// work under any host's handler signature.
type run struct {
	number   int
	exchange *exchange
	ctx      handlerContext // of the handler

	mu      sync.Mutex // guards what follows: handlers may read concurrently
	answers []*answer
	asked   []pendingQuestion // in the leg before
	dropped []Dropped
	state   json.RawMessage // the author's, nil when absent
	plain   protocol.RequestState
	flow    *flow // nil in guard style
	closed  bool  // the handler has returned

	memos      []memo
	version    string   // of the flow
	versioned  bool     // and that of the handler, too
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
func (r *run) RequestID() string { return r.exchange.where.Request }

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

// execute calls the handler with the round in its context and settles what it
// says. Both are guarded, because settling still calls the author's code: the
// text of an error, the check of the output. A request that can have one leg
// only has no round, and must not see that of a request it is served within.
func (p *exchange) execute(ctx context.Context, handler Handler, settle func(context.Context, protocol.Result, error) (protocol.Result, error)) (result protocol.Result, err error) {
	p.started = true
	defer func() {
		if v := recover(); v != nil {
			p.reportPanic(ctx, v)
			p.reportFlowEnd(ctx, EndFailed)
			result, err = nil, internalError()
		}
	}()
	result, err = p.invokeHandler(ctx, handler)
	p.reportAnswers(ctx)
	return settle(ctx, result, err)
}

// invokeHandler runs the handler in its round. A panic in a round that is settled
// anyway is as good as a return.
func (p *exchange) invokeHandler(ctx context.Context, handler Handler) (result protocol.Result, err error) {
	if p.run == nil {
		return handler(withoutRun(ctx))
	}
	p.run.ctx.Context, p.run.ctx.run = ctx, p.run
	defer p.run.closeRun()
	defer func() {
		if !p.run.isDecided() {
			return
		}
		if v := recover(); v != nil {
			if cause, ok := v.(error); !ok || !errors.Is(cause, ErrPending) {
				p.reportPanic(ctx, v)
			}
			result, err = nil, ErrPending
		}
	}()
	return handler(&p.run.ctx)
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
