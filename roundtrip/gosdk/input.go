package gosdk

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// CallToolResult returns what a tool's handler returns to ask, for both kinds of
// handlers that the SDK has:
//
//	return gosdk.CallToolResult(ctx, roundtrip.InputRequired(confirm.Elicit("Sure?")))
//
// The answers are read with the functions of package roundtrip, from ctx. The
// questions are noted beside the result, which is an error for whoever looks at
// it: whatever the handler, or middleware, makes of it, the client is asked.
// The last call in a run counts.
func CallToolResult(ctx context.Context, asks *protocol.InputRequiredResult) (*mcp.CallToolResult, error) {
	if err := recordAsks(ctx, asks); err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: askingText}}}, nil
}

// GetPromptResult returns what a prompt's handler returns to ask, as
// [CallToolResult] does for tools.
func GetPromptResult(ctx context.Context, asks *protocol.InputRequiredResult) (*mcp.GetPromptResult, error) {
	if err := recordAsks(ctx, asks); err != nil {
		return nil, err
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
}

// ReadResourceResult returns what a resource's handler returns to ask, as
// [CallToolResult] does for tools.
func ReadResourceResult(ctx context.Context, asks *protocol.InputRequiredResult) (*mcp.ReadResourceResult, error) {
	if err := recordAsks(ctx, asks); err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}, nil
}

// askingText is the content of a tool's result that stands for recorded questions. No
// client gets it.
const askingText = "the client is being asked"

func recordAsks(ctx context.Context, asks *protocol.InputRequiredResult) error {
	run := runFrom(ctx)
	if run == nil {
		return ErrNotInstalled
	}
	if asks == nil {
		return errors.New("gosdk: there is nothing to ask: the InputRequiredResult is nil")
	}
	run.recordAsks(asks)
	return nil
}
