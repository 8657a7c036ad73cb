package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A run is one request or notification while the SDK's server handles it.
type run struct {
	session  *session
	ctx      context.Context // the caller's context
	cancel   context.CancelCauseFunc
	back     protocol.BackCaller
	caller   *hosted.Caller
	params   json.RawMessage
	extra    *mcp.RequestExtra       // identifies the SDK's request
	answered chan *protocol.Response // has room for the only response
	left     chan struct{}           // closed when the handler has returned
	leave    func()

	// The lock notifying is read-held while a notification is sent, so that none follows the end.
	notifying sync.RWMutex
	over      bool

	mu        sync.Mutex
	holdsBack bool // holds back questions from goroutines other than the handler's
	heldBack  bool // a question was held back
	asked     bool // a question was sent
	panicked  any
}

type runKey struct{}

func newRun(ctx context.Context, x *session, back protocol.BackCaller) *run {
	r := &run{session: x, back: back, caller: hosted.CallerFrom(ctx),
		answered: make(chan *protocol.Response, 1), left: make(chan struct{})}
	r.leave = sync.OnceFunc(func() { close(r.left) })
	if r.caller == nil {
		r.caller = x.caller
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.extra = &mcp.RequestExtra{TokenInfo: x.tokenInfo(ctx, r.caller),
		Header: r.caller.Header.Clone(), CloseSSEStream: r.closeStream}
	if r.extra.Header == nil {
		r.extra.Header = http.Header{} // handlers read it without a check for nil
	}
	return r
}

func (h *host) tokenInfo(ctx context.Context, caller *hosted.Caller) *auth.TokenInfo {
	if h.opts.TokenInfo != nil {
		return h.opts.TokenInfo(ctx, caller)
	}
	if info := auth.TokenInfoFromContext(ctx); info != nil {
		return info
	}
	if caller.Principal.Subject == "" {
		return nil
	}
	// rondo's server has validated the token of this request.
	return &auth.TokenInfo{UserID: caller.Principal.Subject,
		Expiration: time.Now().Add(time.Hour)}
}

func (r *run) closeStream(args mcp.CloseSSEStreamArgs) {
	closer, ok := r.back.(interface {
		CloseStream(ctx context.Context, retry time.Duration) error
	})
	if ok {
		_ = closer.CloseStream(r.ctx, args.RetryAfter)
	}
}

// begin registers the run for the middleware. end() ends it: later messages do not belong to it.
func (r *run) begin() (end func()) {
	runs := &r.session.host.runs
	runs.Store(r.extra, r)
	return func() {
		runs.Delete(r.extra)
		r.cancel(nil)
		r.notifying.Lock()
		defer r.notifying.Unlock()
		r.over = true
	}
}

// progressToken returns the client's progress token, or nil.
func (r *run) progressToken() json.RawMessage {
	var p struct {
		Meta json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(r.params, &p) // the SDK refuses unreadable parameters
	return progressToken(p.Meta)
}

func (h *host) runHandlers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (
		result mcp.Result, err error) {
		found, ok := h.runs.Load(req.GetExtra())
		if !ok {
			return next(ctx, method, req)
		}
		r := found.(*run)
		defer r.leave()
		own, cancel := context.WithCancelCause(r.ctx)
		defer cancel(nil)
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		defer stop()
		roundtrip.ContinueHandler(func() {
			defer r.keepPanic(&result, &err)
			result, err = next(handlerContext{own, context.WithoutCancel(ctx), r}, method, req)
			if err == nil && result != nil {
				// The SDK does not respond if a result cannot be encoded.
				if _, err = json.Marshal(result); err != nil {
					result, err = nil, fmt.Errorf("the result cannot be encoded: %w", err)
				}
			}
		})
		return result, err
	}
}

// A handlerContext ends with the call, and has the values of both the SDK and the call.
type handlerContext struct {
	context.Context
	sdk context.Context // without its cancellation, where package context would look for the cause
	run *run
}

func (c handlerContext) Value(key any) any {
	if _, ok := key.(runKey); ok {
		return c.run
	}
	if v := c.sdk.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

func (r *run) keepPanic(result *mcp.Result, err *error) {
	if v := recover(); v != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.panicked = v
		*result, *err = nil, fmt.Errorf("gosdk: panic: %v", v)
	}
}

// panicAgain repeats the handler's panic, unless an answer was held back.
func (r *run) panicAgain() {
	r.mu.Lock()
	v, heldBack := r.panicked, r.heldBack
	r.mu.Unlock()
	if v != nil && !heldBack {
		panic(v)
	}
}

func (r *run) isOver() bool {
	r.notifying.RLock()
	defer r.notifying.RUnlock()
	return r.over
}

// notify returns false if the run has ended.
func (r *run) notify(ctx context.Context, n *protocol.Notification) bool {
	r.notifying.RLock()
	defer r.notifying.RUnlock()
	if !r.over {
		_ = r.back.Notify(ctx, n) // the context of the call ends if the client is gone
	}
	return !r.over
}

var errOver = errors.New("gosdk: the call that asks has ended")

// ask sends a question to the client, or holds it back until the handler has ended.
func (r *run) ask(ctx context.Context, m *jsonrpc.Request) (json.RawMessage, error) {
	if r.isOver() {
		return nil, errOver
	}
	if !r.mayAsk() {
		r.cancel(roundtrip.ErrPending)
		return nil, roundtrip.ErrPending
	}
	if ctx.Value(runKey{}) != any(r) { // not the handler's goroutine
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	}
	return call(ctx, r.back, m)
}

// mayAsk reports whether to send a question now: once one was sent, a rerun would repeat it.
func (r *run) mayAsk() bool {
	own := !r.holdsBack || roundtrip.CalledByHandler()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heldBack = r.heldBack || !own && !r.asked
	r.asked = r.asked || !r.heldBack
	return !r.heldBack
}

func (r *run) hasHeldBack() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heldBack
}
