package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// toolFamily is the [family] of tools/call.
type toolFamily struct{}

func (toolFamily) isEmpty(r *mcp.CallToolResult) bool { return r == nil }

func (toolFamily) readAsks(ctx context.Context,
	r *mcp.CallToolResult) (*protocol.InputRequiredResult, error) {
	return decodeAsks(ctx, r.Result, r.MultiRoundTripResult)
}

// readComplete clears a state, which only a result with questions may have.
func (toolFamily) readComplete(r *mcp.CallToolResult,
	whole bool) (protocol.Result, *mcp.CallToolResult, error) {
	if r.RequestState != "" {
		clean := *r
		clean.MultiRoundTripResult = mcp.MultiRoundTripResult{}
		r = &clean
	}
	if whole {
		result, err := decodeHostResult(protocol.MethodCallTool, r)
		return result, r, err
	}
	return &protocol.CallToolResult{IsError: r.IsError}, r, nil
}

func (toolFamily) encodeResult(result protocol.Result) (*mcp.CallToolResult, error) {
	return encodeHostResult(protocol.MethodCallTool, result, mcp.ParseCallToolResult)
}

func (toolFamily) encodeAsks(
	asks *protocol.InputRequiredResult) (*mcp.CallToolResult, bool, error) {
	questions, err := encodeQuestions(asks)
	return &mcp.CallToolResult{Result: mcp.Result{ResultType: mcp.ResultTypeInputRequired},
		MultiRoundTripResult: questions}, true, err
}

// promptFamily is the [family] of prompts/get.
type promptFamily struct{}

func (promptFamily) isEmpty(r *mcp.GetPromptResult) bool { return r == nil }

func (promptFamily) readAsks(ctx context.Context,
	r *mcp.GetPromptResult) (*protocol.InputRequiredResult, error) {
	return decodeAsks(ctx, r.Result, r.MultiRoundTripResult)
}

func (promptFamily) readComplete(r *mcp.GetPromptResult,
	whole bool) (protocol.Result, *mcp.GetPromptResult, error) {
	if r.RequestState != "" {
		clean := *r
		clean.MultiRoundTripResult = mcp.MultiRoundTripResult{}
		r = &clean
	}
	if whole {
		full := *r
		if full.Messages == nil {
			full.Messages = []mcp.PromptMessage{}
		}
		result, err := decodeHostResult(protocol.MethodGetPrompt, &full)
		return result, r, err
	}
	return &protocol.GetPromptResult{}, r, nil
}

func (promptFamily) encodeResult(result protocol.Result) (*mcp.GetPromptResult, error) {
	return encodeHostResult(protocol.MethodGetPrompt, result, mcp.ParseGetPromptResult)
}

func (promptFamily) encodeAsks(
	asks *protocol.InputRequiredResult) (*mcp.GetPromptResult, bool, error) {
	questions, err := encodeQuestions(asks)
	return &mcp.GetPromptResult{Result: mcp.Result{ResultType: mcp.ResultTypeInputRequired},
		MultiRoundTripResult: questions}, true, err
}

// resourceFamily is the [family] of resources/read. Its handlers return contents, and
// therefore ask with an error; see [ResourceInput].
type resourceFamily struct{}

func (resourceFamily) isEmpty([]mcp.ResourceContents) bool { return false }

func (resourceFamily) readAsks(context.Context,
	[]mcp.ResourceContents) (*protocol.InputRequiredResult, error) {
	return nil, nil
}

func (resourceFamily) readComplete(r []mcp.ResourceContents,
	whole bool) (protocol.Result, []mcp.ResourceContents, error) {
	if whole {
		full := mcp.ReadResourceResult{Contents: r}
		if r == nil {
			full.Contents = []mcp.ResourceContents{}
		}
		result, err := decodeHostResult(protocol.MethodReadResource, full)
		return result, r, err
	}
	return &protocol.ReadResourceResult{}, r, nil
}

func (resourceFamily) encodeResult(result protocol.Result) ([]mcp.ResourceContents, error) {
	full, err := encodeHostResult(protocol.MethodReadResource, result, mcp.ParseReadResourceResult)
	if err != nil {
		return nil, err
	}
	return full.Contents, nil
}

func (resourceFamily) encodeAsks(
	*protocol.InputRequiredResult) ([]mcp.ResourceContents, bool, error) {
	return nil, false, nil
}

// decodeHostResult converts a complete result, for a guard to record.
func decodeHostResult(method string, r any) (protocol.Result, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("the result: %w", err)
	}
	// In a legacy revision: mcp-go adds what modern ones require when it sends.
	result, err := protocol.DecodeResult(protocol.V20251125, method, raw)
	if err != nil {
		return nil, fmt.Errorf("the result cannot be recorded: %w", err)
	}
	return result, nil
}

// encodeHostResult reverses decodeHostResult.
func encodeHostResult[R any](method string, result protocol.Result,
	parse func(*json.RawMessage) (*R, error)) (*R, error) {
	raw, err := protocol.EncodeResult(protocol.V20251125, method, result)
	if err != nil {
		return nil, err
	}
	return parse(&raw)
}
