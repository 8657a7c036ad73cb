package gosdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A run is one request while the SDK's server handles it.
type run struct {
	ctx    context.Context // of the caller
	cancel context.CancelCauseFunc
	back   protocol.BackCaller
	caller *hosted.Caller
	extra  *mcp.RequestExtra // by which the SDK's request is known

	holdsBack bool        // questions from other goroutines than the handler's
	heldBack  atomic.Bool // one was

	mu       sync.Mutex
	panicked any
}

type runKey struct{}

func newRun(ctx context.Context, x *session, back protocol.BackCaller) *run {
	r := &run{back: back, caller: hosted.CallerFrom(ctx)}
	if r.caller == nil {
		r.caller = x.caller
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.extra = &mcp.RequestExtra{TokenInfo: x.peer.tokenInfo(ctx, r.caller),
		Header: r.caller.Header, CloseSSEStream: r.closeStream}
	if r.extra.Header == nil {
		r.extra.Header = http.Header{}
	}
	return r
}

// end releases what the run holds.
func (r *run) end() { r.cancel(nil) }

func (p *peer) tokenInfo(ctx context.Context, caller *hosted.Caller) *auth.TokenInfo {
	switch {
	case p.opts.TokenInfo != nil:
		return p.opts.TokenInfo(ctx, caller)
	case caller.Principal == protocol.Principal{}:
		return nil
	}
	// rondo's server has checked the token of this request.
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

// runHandlers is the receiving middleware: it gives handlers the context of their call.
func (p *peer) runHandlers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (
		result mcp.Result, err error) {
		found, ok := p.runs.Load(req.GetExtra())
		if !ok {
			return next(ctx, method, req)
		}
		r := found.(*run)
		own, cancel := context.WithCancelCause(r.ctx)
		defer cancel(nil)
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		defer stop()
		roundtrip.ContinueHandler(func() {
			defer r.recoverPanic(&err)
			result, err = next(handlerContext{own, ctx, r}, method, req)
		})
		return result, err
	}
}

// A handlerContext has the values of the call, and those of the SDK beside them.
type handlerContext struct {
	context.Context
	sdk context.Context
	run *run
}

// Value implements [context.Context].
func (c handlerContext) Value(key any) any {
	if _, ok := key.(runKey); ok {
		return c.run
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.sdk.Value(key)
}

// recoverPanic keeps a panic for the goroutine of the call.
func (r *run) recoverPanic(err *error) {
	if v := recover(); v != nil {
		r.mu.Lock()
		r.panicked = v
		r.mu.Unlock()
		*err = fmt.Errorf("gosdk: panic: %v", v)
	}
}

// panicAgain panics as the handler did.
func (r *run) panicAgain() {
	r.mu.Lock()
	v := r.panicked
	r.mu.Unlock()
	if v != nil {
		panic(v)
	}
}

// ask puts a question of the handler to the client of the request, unless the question waits for
// the end of the handler.
func (r *run) ask(ctx context.Context, m *jsonrpc.Request) (json.RawMessage, error) {
	if r.holdsBack && !roundtrip.CalledByHandler() {
		r.heldBack.Store(true)
		r.cancel(roundtrip.ErrPending)
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
			Message: roundtrip.ErrPending.Error()}
	}
	return call(ctx, r.back, m)
}
