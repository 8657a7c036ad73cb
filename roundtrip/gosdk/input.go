package gosdk

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/roundtrip"
)

// ToolInput returns the result with which a tool's handler asks, in guard style: the
// handler runs again from its start with the answers, which it reads with the functions of
// package roundtrip. It is for both kinds of handlers that the SDK has:
//
//	return gosdk.ToolInput(ctx, confirm.Elicit("Sure?"))
//
// The items are those of [roundtrip.InputRequired]. They are recorded for the run that ctx
// belongs to, and the client is asked whatever the handler, or middleware, makes of the
// result. The last call in a run counts. Outside of a handler the error is a
// [roundtrip.ErrNoRound].
func ToolInput(ctx context.Context, items ...roundtrip.Item) (*mcp.CallToolResult, error) {
	if err := recordAsks(ctx, items); err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{IsError: true,
		Content: []mcp.Content{&mcp.TextContent{Text: askingText}}}, nil
}

// PromptInput is [ToolInput] for handlers of prompts.
func PromptInput(ctx context.Context, items ...roundtrip.Item) (*mcp.GetPromptResult, error) {
	if err := recordAsks(ctx, items); err != nil {
		return nil, err
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
}

// ResourceInput is [ToolInput] for handlers of resources and templates.
func ResourceInput(ctx context.Context, items ...roundtrip.Item) (*mcp.ReadResourceResult, error) {
	if err := recordAsks(ctx, items); err != nil {
		return nil, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{}}, nil
}

// askingText is the content of a tool's result that stands for recorded questions. No
// client gets it.
const askingText = "the client is being asked"

// recordAsks records questions for the run of the handler that ctx belongs to.
func recordAsks(ctx context.Context, items []roundtrip.Item) error {
	run := runFrom(ctx)
	if run == nil {
		return errNotInstalled
	}
	run.recordAsks(roundtrip.InputRequired(items...))
	return nil
}
