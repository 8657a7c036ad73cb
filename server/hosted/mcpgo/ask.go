package mcpgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// An asker sends questions to the client of a session or request. It implements
// [server.SessionWithElicitation], [server.SessionWithSampling] and [server.SessionWithRoots].
type asker struct {
	of  *session
	own *run // nil for a session's asker
}

func (a asker) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (
	*mcp.ElicitationResult, error) {
	return ask[mcp.ElicitationResult](ctx, a, protocol.MethodElicit, request.Params)
}

func (a asker) RequestSampling(ctx context.Context, request mcp.CreateMessageRequest) (
	*mcp.CreateMessageResult, error) {
	result, err := ask[mcp.CreateMessageResult](ctx, a, protocol.MethodCreateMessage,
		request.CreateMessageParams)
	if err != nil {
		return nil, err
	}
	if result.Content, err = mcp.ParseSamplingContent(result.Content); err != nil {
		return nil, fmt.Errorf("mcpgo: the answer to a question: %w", err)
	}
	return result, nil
}

func (a asker) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (
	*mcp.ListRootsResult, error) {
	return ask[mcp.ListRootsResult](ctx, a, protocol.MethodListRoots, struct{}{})
}

// ask sends a question to the client of its request. The question ends with ctx and the request.
func ask[T any](ctx context.Context, a asker, method string, params any) (*T, error) {
	r, err := a.findRun(ctx)
	if errors.Is(err, errUnknown) {
		// The question may be any running call's, so no call completes without an answer.
		_, _ = a.of.back.Call(ctx, &protocol.Request{
			ID: protocol.IntID(a.of.asked.Add(1)), Method: method})
	}
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: a question cannot be encoded: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })
	defer stop()
	r.outbox.flush() // earlier messages arrive before the question
	response, err := r.back.Call(ctx, &protocol.Request{
		ID: protocol.IntID(a.of.asked.Add(1)), Method: method, Params: raw})
	if err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, convertError(response.Error)
	}
	result := new(T)
	if err := json.Unmarshal(response.Result, result); err != nil {
		return nil, fmt.Errorf("mcpgo: the answer to a question: %w", err)
	}
	return result, nil
}

func convertError(e *protocol.Error) error {
	details := mcp.JSONRPCErrorDetails{Code: int(e.Code), Message: e.Message}
	if e.Data != nil {
		details.Data = e.Data
	}
	return details.AsError()
}

var (
	errOver    = errors.New("mcpgo: the request that the question belongs to has ended")
	errUnknown = errors.New("mcpgo: the request that the question belongs to is not known: " +
		"ask with the context of the handler")
)

// findRun returns the request of a question: from ctx, or the asker's own, or the only one.
func (a asker) findRun(ctx context.Context) (*run, error) {
	r := runFrom(ctx)
	if r == nil || r.session != a.of {
		r = a.own
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if r != nil {
		if _, ok := a.of.running[r]; !ok {
			return nil, errOver
		}
		return r, nil
	}
	if len(a.of.running) != 1 {
		return nil, errUnknown
	}
	for r = range a.of.running {
	}
	return r, nil
}
