package gosdk

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// dropNulls returns arguments without the nulls that can only mean absent, by the schema with
// which the tool is listed. The SDK would refuse them for typed tools. The state of a flow stays
// bound to the arguments as they came. Where the schema is not found, or is no schema, it
// returns arguments.
func (c *call) dropNulls(ctx context.Context, arguments json.RawMessage) json.RawMessage {
	if !bytes.Contains(arguments, []byte("null")) || jsonx.Check(arguments) != nil {
		return arguments
	}
	text, err := json.Marshal(c.findInputSchema(ctx))
	if err != nil {
		return arguments
	}
	input, err := schema.Compile(text, schema.Limits{})
	if err != nil {
		return arguments
	}
	return input.DropNulls(arguments)
}

// findInputSchema returns the input schema of the tool, nil if it is not listed. The SDK gives
// access to tools by their list alone, so middleware that the server had before the adapter
// sees a tools/list.
func (c *call) findInputSchema(ctx context.Context) any {
	params := &mcp.ListToolsParams{}
	for {
		result, err := c.next(ctx, protocol.MethodListTools,
			&mcp.ListToolsRequest{Session: c.session, Params: params})
		list, ok := result.(*mcp.ListToolsResult)
		if err != nil || !ok || list == nil {
			return nil
		}
		for _, tool := range list.Tools {
			if tool != nil && tool.Name == c.Target {
				return tool.InputSchema
			}
		}
		if list.NextCursor == "" {
			return nil
		}
		params = &mcp.ListToolsParams{Cursor: list.NextCursor}
	}
}
