package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// leaveTimeout is how long an abandoned handler that ignores its context may run.
const leaveTimeout = 5 * time.Second

// A run is a request while the server handles it, and the session that its handler sees.
type run struct {
	*session
	asker
	ctx    context.Context // the handler's context
	caller *hosted.Caller
	back   protocol.BackCaller
	method string
	outbox outbox
	urls   *mcp.JSONRPCErrorDetails // an error that names URLs to visit, see noteURLs
}

var (
	_ server.SessionWithTools                 = (*run)(nil)
	_ server.SessionWithResources             = (*run)(nil)
	_ server.SessionWithResourceTemplates     = (*run)(nil)
	_ server.SessionWithResourceSubscriptions = (*run)(nil)
	_ server.SessionWithLogging               = (*run)(nil)
	_ server.SessionWithClientInfo            = (*run)(nil)
	_ server.SessionWithElicitation           = (*run)(nil)
	_ server.SessionWithSampling              = (*run)(nil)
	_ server.SessionWithRoots                 = (*run)(nil)
	_ server.SessionWithProtocolVersion       = (*run)(nil)
)

type runKey struct{}

func runFrom(ctx context.Context) *run {
	r, _ := ctx.Value(runKey{}).(*run)
	return r
}

// Handle runs the handler on its own goroutine: it may never return.
func (x *session) Handle(ctx context.Context, req *protocol.Request, back protocol.Back) (
	*protocol.Response, error) {
	caller, ok := back.(protocol.BackCaller)
	if !ok {
		return nil, errors.New("mcpgo: the way back takes no questions")
	}
	raw, err := protocol.AppendMessage(nil, req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(x.life, func() { cancel(errGone) })
	defer stop()
	r := x.begin(ctx, req.Method, caller)
	if r == nil {
		return nil, errGone
	}
	defer r.end()
	ended := make(chan outcome, 1)
	go r.handle(raw, ended)
	var o outcome
	select {
	case o = <-ended:
	case <-ctx.Done():
		select {
		case o = <-ended:
		case <-time.After(leaveTimeout):
			return nil, fmt.Errorf("mcpgo: the handler goes on after its request: %w",
				context.Cause(ctx))
		}
	}
	if o.panicked != nil {
		panic(o.panicked)
	}
	if x.ended.Load() {
		return nil, errGone
	}
	return r.readAnswer(req, o.answer)
}

// begin returns nil if the session has ended.
func (x *session) begin(ctx context.Context, method string, back protocol.BackCaller) *run {
	r := &run{session: x, back: back, method: method, caller: hosted.CallerFrom(ctx)}
	if r.caller == nil {
		r.caller = x.caller
	}
	r.ctx = x.peer.server.WithContext(context.WithValue(ctx, runKey{}, r), r)
	r.asker = asker{x, r}
	r.outbox = outbox{room: requestRoom, send: func(n mcp.JSONRPCNotification) {
		notify(r.ctx, r.back, n)
	}}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended.Load() {
		return nil
	}
	x.running[r] = struct{}{}
	return r
}

// end ends a request, whose handler may still run.
func (r *run) end() {
	r.session.mu.Lock()
	delete(r.running, r)
	r.session.mu.Unlock()
	r.outbox.abandon()
}

type outcome struct {
	answer   mcp.JSONRPCMessage
	panicked any
}

func (r *run) handle(message json.RawMessage, ended chan<- outcome) {
	var o outcome
	defer func() {
		o.panicked = recover()
		r.outbox.close()
		ended <- o
	}()
	roundtrip.ContinueHandler(func() { o.answer = r.peer.server.HandleMessage(r.ctx, message) })
}

func (r *run) readAnswer(req *protocol.Request, answer mcp.JSONRPCMessage) (
	*protocol.Response, error) {
	response := &protocol.Response{ID: req.ID}
	var err error
	switch m := answer.(type) {
	case mcp.JSONRPCResponse:
		response.Result, err = json.Marshal(findQuestions(m.Result))
	case mcp.JSONRPCError:
		e := m.Error
		if r.urls != nil {
			e.Code, e.Data = r.urls.Code, r.urls.Data
		}
		response.Error = &protocol.Error{Code: int64(e.Code), Message: e.Message}
		if e.Data != nil {
			response.Error.Data, err = json.Marshal(e.Data)
		}
	default:
		return nil, fmt.Errorf("mcpgo: the server has not answered %s", req.Method)
	}
	if err != nil {
		return nil, fmt.Errorf("mcpgo: the answer to %s cannot be encoded: %w", req.Method, err)
	}
	return response, nil
}

// findQuestions reduces a result that asks to its questions and state.
func findQuestions(result any) any {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		if r.NeedsInput() {
			return mcp.InputRequiredResult{Result: r.Result,
				MultiRoundTripResult: r.MultiRoundTripResult}
		}
	case mcp.GetPromptResult:
		if r.NeedsInput() {
			return mcp.InputRequiredResult{Result: r.Result,
				MultiRoundTripResult: r.MultiRoundTripResult}
		}
	}
	return result
}

// ProtocolVersion is 2026-07-28 where questions may be returned, or mcp-go would send them itself.
func (r *run) ProtocolVersion() string {
	switch r.method {
	case protocol.MethodCallTool, protocol.MethodGetPrompt:
		return string(protocol.V20260728)
	}
	return r.session.ProtocolVersion()
}

// NotificationChannel returns the session's channel once the request has ended.
func (r *run) NotificationChannel() chan<- mcp.JSONRPCNotification {
	r.session.mu.Lock()
	_, runs := r.running[r]
	r.session.mu.Unlock()
	if !runs {
		return r.session.NotificationChannel()
	}
	return r.outbox.open()
}
