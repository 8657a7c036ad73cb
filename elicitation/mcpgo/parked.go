package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/protocol"
)

// forwardParked serves a client that comes back with answers. The call is kept open upstream while
// the client is away.
func forwardParked[Result any](ctx context.Context, u *Upstream, info *server.RequestProtocolInfo,
	req *forwardedRequest[Result]) (*Result, error) {
	parked, err := newParkedRequest(ctx, u.clients, info, req)
	if err != nil {
		return nil, err
	}
	to := upstreamCall{
		modes: modesOf(elicitation.SessionInfo{
			Capabilities: parked.Capabilities, Version: protocol.V20260728}),
		principal: parked.Principal, parked: true,
	}
	parked.Run = func(ctx context.Context, begin bridge.BeginFunc) (json.RawMessage, error) {
		to.begin = begin
		result, err := retryLost(func() (*Result, error) {
			return callUpstream(ctx, u, req, &to)
		})
		if wire := wireOf(err); wire != nil {
			return nil, wire
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", protocol.Errorf(protocol.CodeInternalError, "%s",
				unreachable{err}.Error()), err)
		}
		return json.Marshal(result)
	}
	outcome, err := u.clients.opts.Bridge.Serve(ctx, parked)
	if wire, ok := protocol.AsError(err); ok {
		return nil, &upstreamError{wire, err}
	}
	if err != nil {
		return nil, err
	}
	if outcome.Result == nil {
		result := new(Result)
		return result, encodeQuestions(any(result), outcome)
	}
	result, err := req.decode(outcome.Result)
	if err != nil {
		return nil, fmt.Errorf("elicitation upstream: the result: %w", err)
	}
	return result, nil
}

// newParkedRequest converts a request for the bridge, without what runs it.
func newParkedRequest[Result any](ctx context.Context, d *Downstream,
	info *server.RequestProtocolInfo, req *forwardedRequest[Result]) (*bridge.Request, error) {
	r := &bridge.Request{
		Method: req.method, Target: req.target,
		Principal: d.principalOf(ctx), Credential: req.header.Get("Authorization"),
		State: req.answers.RequestState,
	}
	var err error
	if info.ClientCapabilities != nil {
		if r.Capabilities, err = decodeCapabilities(*info.ClientCapabilities); err != nil {
			return nil, err
		}
	}
	if req.arguments != nil {
		if r.Arguments, err = json.Marshal(req.arguments); err != nil {
			return nil, fmt.Errorf("elicitation call: the arguments: %w", err)
		}
	}
	if req.answers.InputResponses != nil {
		r.Responses = make(map[string]json.RawMessage, len(req.answers.InputResponses))
	}
	for key, response := range req.answers.InputResponses {
		if r.Responses[key], err = response.MarshalJSON(); err != nil {
			return nil, fmt.Errorf("elicitation call: an answer: %w", err)
		}
	}
	if token, ok := ctx.Value(tokenKey{}).(protocol.ProgressToken); ok && !token.IsZero() {
		to := &asker{server: d.server}
		r.Progress = func(ctx context.Context, p *protocol.Progress) {
			own := *p
			own.Token = token
			_ = to.DeliverProgress(ctx, &own) // it may be lost; the outcome follows
		}
	}
	if session := server.ClientSessionFromContext(ctx); session != nil && d.opts.LogName != nil {
		r.LogName = d.opts.LogName(session)
	}
	return r, nil
}

// encodeQuestions has mcp-go's result say the questions of an outcome.
func encodeQuestions(result any, outcome *bridge.Outcome) error {
	questions := mcp.MultiRoundTripResult{RequestState: outcome.State,
		InputRequests: make(mcp.InputRequests, len(outcome.Questions))}
	for _, q := range outcome.Questions {
		var params mcp.ElicitationParams
		if err := json.Unmarshal(q.Params, &params); err != nil { // the router's own bytes
			return fmt.Errorf("elicitation call: the question: %w", err)
		}
		questions.InputRequests[q.ID] = mcp.NewElicitationInputRequest(params)
	}
	switch r := result.(type) {
	case *mcp.CallToolResult:
		r.ResultType, r.MultiRoundTripResult = mcp.ResultTypeInputRequired, questions
		r.Content = []mcp.Content{}
	case *mcp.GetPromptResult:
		r.ResultType, r.MultiRoundTripResult = mcp.ResultTypeInputRequired, questions
		r.Messages = []mcp.PromptMessage{}
	default:
		return fmt.Errorf("elicitation call: a %T cannot have questions", result)
	}
	return nil
}
