package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// handlerRun is one run of a handler. It is found by the handler's context, and by the
// shadow session if the handler sees one.
type handlerRun struct {
	call    *call
	visible *mcp.ServerSession // the session that the handler sees
	ctx     context.Context    // the handler's, for questions asked without it

	mu sync.Mutex
	// asks is the last result of a builder such as [ToolInput].
	asks *protocol.InputRequiredResult
	// bridgeStopped is set when a question of the SDK's bridge was stopped.
	bridgeStopped bool
}

type handlerRunKey struct{}

func runFrom(ctx context.Context) *handlerRun {
	run, _ := ctx.Value(handlerRunKey{}).(*handlerRun)
	return run
}

func (run *handlerRun) recordAsks(asks *protocol.InputRequiredResult) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.asks = asks
}

func (run *handlerRun) recordedAsks() *protocol.InputRequiredResult {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.asks
}

func (run *handlerRun) recordBridge() {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.bridgeStopped = true
}

func (run *handlerRun) wasBridged() bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.bridgeStopped
}

// runHandler is the handler that the funnel runs: the rest of the SDK's middleware, its
// dispatch and the author's handler.
//
// Toward a legacy client the SDK's bridge would push the questions that a handler
// returns, for one round and unchecked. The adapter stops the bridge before it sends
// anything, and runs the handler once more behind a session of a modern revision, where
// the SDK leaves questions in the result. That costs one more run of the code before the
// questions, which must bear it anyway, and only in calls of legacy clients to handlers
// that return questions in the SDK's types.
func (c *call) runHandler(ctx context.Context) (protocol.Result, error) {
	result, err := c.runHandlerOnce(ctx)
	if errors.Is(err, errBridgeStopped) {
		c.returnsQuestions = true
		result, err = c.runHandlerOnce(ctx)
	}
	return result, err
}

func (c *call) runHandlerOnce(ctx context.Context) (protocol.Result, error) {
	run := &handlerRun{call: c, visible: c.session}
	ctx = context.WithValue(ctx, handlerRunKey{}, run)
	run.ctx = ctx
	if era := c.shadowVersion(); era != "" {
		shadow, err := c.adapter.connectShadow(run, era)
		if err != nil {
			return nil, c.reportBug(ctx, fmt.Errorf("session for the handler: %w", err))
		}
		defer c.adapter.closeShadow(shadow)
		run.visible = shadow
	}
	c.plainError = nil
	result, err := c.next(ctx, c.method, c.requestForHandler(ctx, run.visible))
	c.reportUnasked(ctx, result, err)
	if asks := run.recordedAsks(); asks != nil {
		return asks, nil
	}
	if !c.returnsQuestions && (run.wasBridged() || c.isBridgeError(err)) {
		return nil, errBridgeStopped
	}
	if err != nil {
		err = decodeError(err)
		c.plainError = err
		return nil, err
	}
	return c.readResult(ctx, result)
}

// shadowVersion returns the revision of the shadow session that the handler is to see,
// empty if it sees the client's session.
func (c *call) shadowVersion() protocol.Version {
	modern := c.Version.Era() == protocol.Modern
	switch {
	case c.returnsQuestions:
		return protocol.V20260728
	case c.adapter.opts.UnmodifiedHandlers && (modern || c.adapter.opts.MustAsk), c.sdkSaysModern:
		return protocol.V20251125
	}
	return ""
}

// requestForHandler returns the request that the handler gets: with the session that it
// is to see, the verified answers, and the state that it returned itself.
func (c *call) requestForHandler(ctx context.Context, session *mcp.ServerSession) mcp.Request {
	answers, state := restoreReturned(ctx)
	extra := hideRetry(c.request.GetExtra())
	if extra != nil && c.takesJSONAlone { // closing the stream would lose the response
		kept := *extra
		kept.CloseSSEStream = func(mcp.CloseSSEStreamArgs) {}
		extra = &kept
	}
	switch r := c.request.(type) {
	case *mcp.CallToolRequest:
		params := *r.Params
		params.InputResponses, params.RequestState = answers, state
		params.Arguments = c.dropNulls(ctx, params.Arguments)
		return &mcp.CallToolRequest{Session: session, Params: &params, Extra: extra}
	case *mcp.GetPromptRequest:
		params := *r.Params
		params.InputResponses, params.RequestState = answers, state
		return &mcp.GetPromptRequest{Session: session, Params: &params, Extra: extra}
	case *mcp.ReadResourceRequest:
		params := *r.Params
		params.InputResponses, params.RequestState = answers, state
		return &mcp.ReadResourceRequest{Session: session, Params: &params, Extra: extra}
	}
	return c.request // newCall knows no other
}

// readResult converts the handler's result for the funnel. A complete one is kept in c,
// and the funnel gets a placeholder.
func (c *call) readResult(ctx context.Context, result mcp.Result) (protocol.Result, error) {
	c.complete, c.placeholder, c.toolError = nil, nil, nil
	var p resultParts
	switch r := result.(type) {
	case *mcp.CallToolResult:
		if r == nil {
			return nil, nil
		}
		if err := r.GetError(); isForClient(err) {
			return nil, err
		} else if err != nil && r.IsError {
			c.complete, c.toolError = result, err
			return nil, err
		}
		p = resultParts{r.InputRequests, r.RequestState, len(r.Content) > 0 ||
			r.StructuredContent != nil, r.IsError}
		c.placeholder = &protocol.CallToolResult{IsError: r.IsError}
	case *mcp.GetPromptResult:
		if r == nil {
			return nil, nil
		}
		p = resultParts{r.InputRequests, r.RequestState, len(r.Messages) > 0, false}
		c.placeholder = &protocol.GetPromptResult{}
	case *mcp.ReadResourceResult:
		if r == nil {
			return nil, nil
		}
		p = resultParts{r.InputRequests, r.RequestState, len(r.Contents) > 0, false}
		c.placeholder = &protocol.ReadResourceResult{}
	default:
		return nil, c.reportBug(ctx, fmt.Errorf("%w: %T", errUnknownResult, result))
	}
	if p.isAsking() {
		asks, err := p.buildAsks(ctx)
		if err != nil {
			return nil, c.reportBug(ctx, err)
		}
		return asks, nil
	}
	if c.adapter.opts.Guard != nil { // which records complete results, to repeat them
		var err error
		if c.placeholder, err = decodeResult(c.method, result); err != nil {
			return nil, c.reportBug(ctx, err)
		}
	}
	c.complete = result
	return c.placeholder, nil
}

// reportBug reports a mistake of the server to the observer, and returns the error for
// the client.
func (c *call) reportBug(ctx context.Context, err error) error {
	c.adapter.reportEvent(ctx, event.ServerBug{
		Where: event.Where{Version: c.Version, Method: c.Method, Target: c.Target,
			Round: roundtrip.RoundOf(ctx).Number},
		Err: err,
	})
	return protocol.Errorf(protocol.CodeInternalError, "internal error")
}

var errUnknownResult = errors.New("middleware between the handler and the funnel returned a " +
	"result of a type that is not the SDK's")

// decodeResult converts a result from the SDK's types.
func decodeResult(method string, result mcp.Result) (protocol.Result, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return protocol.DecodeResult(protocol.Latest, method, text)
}
