package gosdk

import (
	"context"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
)

// ErrNotInstalled says that a handler asks, and that nothing is there that
// could: the server lacks [Install], or the context is not the handler's.
var ErrNotInstalled = errors.New("gosdk: not within a handler of a server with gosdk.Install")

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
	if err := note(ctx, asks); err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: asking}}}, nil
}

// GetPromptResult returns what a prompt's handler returns to ask, as
// [CallToolResult] does for tools.
func GetPromptResult(ctx context.Context, asks *protocol.InputRequiredResult) (*mcp.GetPromptResult, error) {
	if err := note(ctx, asks); err != nil {
		return nil, err
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
}

// ReadResourceResult returns what a resource's handler returns to ask, as
// [CallToolResult] does for tools.
func ReadResourceResult(ctx context.Context, asks *protocol.InputRequiredResult) (*mcp.ReadResourceResult, error) {
	if err := note(ctx, asks); err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}, nil
}

const asking = "the client is being asked"

func note(ctx context.Context, asks *protocol.InputRequiredResult) error {
	l := legFrom(ctx)
	if l == nil {
		return ErrNotInstalled
	}
	if asks == nil {
		return errors.New("gosdk: there is nothing to ask: the InputRequiredResult is nil")
	}
	l.setAsks(asks)
	return nil
}
