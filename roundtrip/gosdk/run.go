package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// run is the handler that the funnel runs: the rest of the SDK's middleware,
// its dispatch and the author's handler.
//
// Toward legacy clients the SDK puts the questions that a handler has returned
// to the client itself, once, and sends what comes after them as it is. It is
// stopped before anything was said; then the handler runs once more behind a
// session of a modern revision, where the SDK passes its questions on. That
// costs one more run of the code before the questions, which runs every round
// anyway, and only in calls of legacy clients to handlers that return questions
// in the SDK's own types.
func (c *call) run(ctx context.Context) (protocol.Result, error) {
	result, err := c.once(ctx)
	if errors.Is(err, errBridged) {
		c.returns = true
		result, err = c.once(ctx)
	}
	return result, err
}

func (c *call) once(ctx context.Context) (protocol.Result, error) {
	l := &leg{call: c, shown: c.session}
	ctx = context.WithValue(ctx, legKey{}, l)
	l.ctx = ctx
	if era := c.disguise(); era != "" {
		shadow, err := c.adapter.shadow(l, era)
		if err != nil {
			return nil, c.bug(ctx, fmt.Errorf("session for the handler: %w", err))
		}
		defer c.adapter.end(shadow)
		l.shown = shadow
	}
	result, err := c.next(ctx, c.method, c.forHandler(ctx, l.shown))
	c.noteUnasked(ctx, result, err)
	if asks := l.asked(); asks != nil {
		return asks, nil
	}
	if settled, failed := l.settle(ctx); settled != nil || failed != nil {
		return settled, failed
	}
	if !c.returns && (l.wasBridged() || c.bridgeFailed(err)) {
		return nil, errBridged
	}
	if err != nil {
		return nil, handlerError(err)
	}
	return c.outcome(ctx, result)
}

// disguise returns the revision of the session that the handler is to see
// instead of the client's, empty if it may see that.
func (c *call) disguise() protocol.Version {
	modern := c.Version.Era() == protocol.Modern
	switch {
	case c.returns:
		return protocol.V20260728
	case c.adapter.unmodified && (modern || c.adapter.mustAsk), c.misled:
		return protocol.V20251125
	}
	return ""
}

// forHandler returns the request as the handler gets it: with the session that
// it is to see, the answers that count, and the state that it has set itself.
func (c *call) forHandler(ctx context.Context, session *mcp.ServerSession) mcp.Request {
	answers, state := returned(ctx)
	extra := withoutSent(c.request.GetExtra())
	switch r := c.request.(type) {
	case *mcp.CallToolRequest:
		params := *r.Params
		params.InputResponses, params.RequestState = answers, state
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

// outcome reads what the handler returned. A complete result only has a
// placeholder in the funnel; its content is not looked at on the way.
func (c *call) outcome(ctx context.Context, result mcp.Result) (protocol.Result, error) {
	c.complete, c.placeholder, c.failure = nil, nil, nil
	var p parts
	switch r := result.(type) {
	case *mcp.CallToolResult:
		if r == nil {
			return nil, nil
		}
		if err := r.GetError(); chosen(err) {
			return nil, err
		} else if err != nil && r.IsError {
			c.complete, c.failure = result, err
			return nil, err
		}
		p = parts{r.InputRequests, r.RequestState, len(r.Content) > 0 || r.StructuredContent != nil, r.IsError}
		c.placeholder = &protocol.CallToolResult{IsError: r.IsError}
	case *mcp.GetPromptResult:
		if r == nil {
			return nil, nil
		}
		p = parts{r.InputRequests, r.RequestState, len(r.Messages) > 0, false}
		c.placeholder = &protocol.GetPromptResult{}
	case *mcp.ReadResourceResult:
		if r == nil {
			return nil, nil
		}
		p = parts{r.InputRequests, r.RequestState, len(r.Contents) > 0, false}
		c.placeholder = &protocol.ReadResourceResult{}
	default:
		return nil, c.bug(ctx, fmt.Errorf("%w: %T", errUnknownResult, result))
	}
	if p.asks() {
		asks, err := p.inputRequired(ctx)
		if err != nil {
			return nil, c.bug(ctx, err)
		}
		return asks, nil
	}
	if c.adapter.funnel.Guard != nil { // it records outcomes, to repeat them
		var err error
		if c.placeholder, err = converted(c.method, result); err != nil {
			return nil, c.bug(ctx, err)
		}
	}
	c.complete = result
	return c.placeholder, nil
}

// bug reports a mistake of the server, and returns what the client learns.
func (c *call) bug(ctx context.Context, err error) error {
	c.adapter.observe(ctx, roundtrip.ServerBug{
		Where: roundtrip.Where{Version: c.Version, Method: c.Method, Target: c.Target, Round: roundtrip.Number(ctx)},
		Err:   err,
	})
	return protocol.Errorf(protocol.CodeInternalError, "internal error")
}

var errUnknownResult = errors.New("middleware between the handler and the funnel returned a result of a type that is not the SDK's")

// converted reads a result of the SDK as one of package protocol.
func converted(method string, result mcp.Result) (protocol.Result, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	return protocol.DecodeResult(protocol.Latest, method, text)
}
