package mcpgo

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
)

// RequestElicitation implements [server.SessionWithElicitation].
func (r *run) RequestElicitation(ctx context.Context, request mcp.ElicitationRequest) (
	*mcp.ElicitationResult, error) {
	var result mcp.ElicitationResult
	return &result, r.ask(ctx, protocol.MethodElicit, request.Params, &result)
}

// RequestSampling implements [server.SessionWithSampling].
func (r *run) RequestSampling(ctx context.Context, request mcp.CreateMessageRequest) (
	*mcp.CreateMessageResult, error) {
	var result mcp.CreateMessageResult
	return &result, r.ask(ctx, protocol.MethodCreateMessage, request.CreateMessageParams, &result)
}

// ListRoots implements [server.SessionWithRoots].
func (r *run) ListRoots(ctx context.Context, _ mcp.ListRootsRequest) (
	*mcp.ListRootsResult, error) {
	var result mcp.ListRootsResult
	return &result, r.ask(ctx, protocol.MethodListRoots, struct{}{}, &result)
}

// ask puts a question to the client of the request.
func (r *run) ask(ctx context.Context, method string, params, result any) error {
	return ask(ctx, r.back, method, params, result)
}

func ask(ctx context.Context, back protocol.BackCaller, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	response, err := back.Call(ctx, &protocol.Request{ID: protocol.StringID(method),
		Method: method, Params: raw})
	if err != nil {
		return err
	}
	if response.Error != nil {
		return response.Error
	}
	return json.Unmarshal(response.Result, result)
}

// catchQuestions takes questions that a tool returns out of mcp-go's way, which would push them
// to the client of a session one by one, and without their keys.
func catchQuestions(next server.ToolHandlerFunc) server.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r := runFrom(ctx)
		if r == nil {
			return next(ctx, req)
		}
		req.Header = r.headers(req.Header)
		result, err := next(ctx, req)
		if err != nil || result == nil || !result.NeedsInput() {
			return result, err
		}
		return &mcp.CallToolResult{}, r.keepQuestions(result.MultiRoundTripResult)
	}
}

func catchPromptQuestions(next server.PromptHandlerFunc) server.PromptHandlerFunc {
	return func(ctx context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		r := runFrom(ctx)
		if r == nil {
			return next(ctx, req)
		}
		req.Header = r.headers(req.Header)
		result, err := next(ctx, req)
		if err != nil || result == nil || !result.NeedsInput() {
			return result, err
		}
		return &mcp.GetPromptResult{}, r.keepQuestions(result.MultiRoundTripResult)
	}
}

// addHeaders gives resource handlers the headers of the caller. They cannot return questions.
func addHeaders(next server.ResourceHandlerFunc) server.ResourceHandlerFunc {
	return func(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		if r := runFrom(ctx); r != nil {
			req.Header = r.headers(req.Header)
		}
		return next(ctx, req)
	}
}

// keepQuestions keeps what a handler has returned for the answer to the request.
func (r *run) keepQuestions(asks mcp.MultiRoundTripResult) (err error) {
	r.asks, err = json.Marshal(struct {
		ResultType string `json:"resultType"`
		mcp.MultiRoundTripResult
	}{"input_required", asks})
	return err
}

// headers returns those of a request and, for the names that the host keeps, of the caller.
func (r *run) headers(of http.Header) http.Header {
	if r.caller == nil || r.caller.Header == nil {
		return of
	}
	all := of.Clone()
	if all == nil {
		all = http.Header{}
	}
	maps.Copy(all, r.caller.Header)
	return all
}
