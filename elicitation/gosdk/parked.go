package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation/bridge"
	"github.com/rondo-mcp/rondo/protocol"
)

// isModern reports whether the client of a request cannot be sent requests.
func isModern(req clientRequest) bool {
	return protocol.Version(req.ProtocolVersion()) >= protocol.V20260728
}

// forwardParked serves a client that comes back with answers. The call is kept open upstream while
// the client is away.
func forwardParked[Result any](ctx context.Context, u *Upstream,
	req *forwardedRequest[Result]) (*Result, error) {
	parked, err := newParkedRequest(u.clients, req)
	if err != nil {
		return nil, err
	}
	parked.Run = func(ctx context.Context, begin bridge.BeginFunc) (json.RawMessage, error) {
		result, err := retryLost(func() (*Result, error) {
			return callUpstream(ctx, u, req, &upstreamCall{
				modes: modesOf(parked.Capabilities), principal: parked.Principal, begin: begin})
		})
		if err != nil {
			return nil, clientError(err)
		}
		return json.Marshal(result)
	}
	outcome, err := u.clients.opts.Bridge.Serve(ctx, parked)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, encodeError(err)
	}
	result := new(Result)
	if outcome.Result == nil {
		return result, encodeQuestions(any(result), outcome)
	}
	if err := json.Unmarshal(outcome.Result, result); err != nil {
		return nil, fmt.Errorf("elicitation upstream: the result: %w", err)
	}
	return result, nil
}

// newParkedRequest converts a request for the bridge, without what runs it.
func newParkedRequest[Result any](d *Downstream, req *forwardedRequest[Result]) (
	*bridge.Request, error) {
	caps, err := decodeCapabilities(req.ClientCapabilities())
	if err != nil {
		return nil, err
	}
	responses, err := encodeResponses(req.responses)
	if err != nil {
		return nil, err
	}
	r := &bridge.Request{
		Method: req.method, Target: req.target, Arguments: req.arguments,
		Principal: d.opts.Principal(req.clientRequest), Credential: readCredential(req),
		Capabilities: caps, Responses: responses, State: req.state,
	}
	if from, ok := req.GetSession().(*mcp.ServerSession); ok {
		r.Progress = reportProgress(req, from)
		if d.opts.LogName != nil {
			r.LogName = d.opts.LogName(from)
		}
	}
	return r, nil
}

// readCredential returns what is known of a caller without a principal.
func readCredential(req mcp.Request) string {
	if extra := req.GetExtra(); extra != nil {
		return extra.Header.Get("Authorization")
	}
	return ""
}

// reportProgress returns what sends progress to the client of a request, nil: it wants none.
func reportProgress(req mcp.Request, client *mcp.ServerSession) func(context.Context,
	*protocol.Progress) {
	token := progressToken(req)
	if token.IsZero() {
		return nil
	}
	return func(ctx context.Context, p *protocol.Progress) {
		own := *p
		own.Token = token
		_ = asker{client}.DeliverProgress(ctx, &own) // it may be lost; the outcome follows
	}
}

// clientError returns the error of a call with what its client gets.
func clientError(err error) error {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &protocol.Error{Code: wire.Code, Message: wire.Message, Data: wire.Data}
	}
	if _, ok := protocol.AsError(err); ok {
		return err
	}
	return fmt.Errorf("%w: %w", protocol.Errorf(protocol.CodeInternalError, "%s",
		unreachable{err}.Error()), err)
}

// encodeResponses converts the answers in a request, nil: there are none.
func encodeResponses(responses mcp.InputResponseMap) (map[string]json.RawMessage, error) {
	if responses == nil {
		return nil, nil
	}
	encoded := make(map[string]json.RawMessage, len(responses))
	for key, response := range responses {
		raw, err := json.Marshal(response)
		if err != nil {
			return nil, fmt.Errorf("elicitation call: an answer: %w", err)
		}
		encoded[key] = raw
	}
	return encoded, nil
}

// encodeQuestions has the SDK's result say the questions of an outcome.
func encodeQuestions(result any, outcome *bridge.Outcome) error {
	requests := make(mcp.InputRequestMap, len(outcome.Questions))
	for _, q := range outcome.Questions {
		params, err := encodeQuestion(q.Request)
		if err != nil {
			return err
		}
		requests[q.ID] = params
	}
	// The type of a result is an unexported field of the SDK's, which only decoding sets.
	const asking = `{"resultType":"input_required","content":[],"messages":[],"contents":[]}`
	if err := json.Unmarshal([]byte(asking), result); err != nil {
		return err
	}
	switch r := result.(type) {
	case *mcp.CallToolResult:
		r.RequestState, r.InputRequests = outcome.State, requests
	case *mcp.GetPromptResult:
		r.RequestState, r.InputRequests = outcome.State, requests
	case *mcp.ReadResourceResult:
		r.RequestState, r.InputRequests = outcome.State, requests
	default:
		return fmt.Errorf("elicitation call: a %T cannot have questions", result)
	}
	return nil
}
