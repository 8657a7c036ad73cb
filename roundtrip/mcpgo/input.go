package mcpgo

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// ToolInput returns the result with which a tool's handler asks, in guard style: the
// handler runs again from its start with the answers. The items are those of
// [roundtrip.InputRequired]. The questions keep their order behind [Adapter.Handler] and
// [Adapter.Listen]; otherwise they are sent in the order of their keys.
func ToolInput(items ...roundtrip.Item) *mcp.CallToolResult {
	asks := roundtrip.InputRequired(items...)
	return &mcp.CallToolResult{Result: carryAsks(asks), MultiRoundTripResult: encodeShown(asks)}
}

// PromptInput is [ToolInput] for handlers of prompts.
func PromptInput(items ...roundtrip.Item) *mcp.GetPromptResult {
	asks := roundtrip.InputRequired(items...)
	return &mcp.GetPromptResult{Result: carryAsks(asks), MultiRoundTripResult: encodeShown(asks)}
}

// ResourceInput is [ToolInput] for handlers of resources and templates, which in mcp-go
// return contents and an error. Clients of revision 2026-07-28 can be asked behind
// [Adapter.Handler] and [Adapter.Listen] only; without them they get an error.
func ResourceInput(items ...roundtrip.Item) ([]mcp.ResourceContents, error) {
	return nil, &askingError{roundtrip.InputRequired(items...)}
}

// askingError is the error with which a resource's handler asks.
type askingError struct{ result *protocol.InputRequiredResult }

func (*askingError) Error() string {
	return "input required: this server is not installed with package mcpgo"
}

// encodeShown returns the questions in mcp-go's types, for middleware between the handler
// and the adapter. Those that cannot be converted are left out; the adapter reads the
// carried questions, and reports mistakes.
func encodeShown(asks *protocol.InputRequiredResult) mcp.MultiRoundTripResult {
	var valid protocol.InputRequiredResult
	for _, q := range asks.InputRequests {
		if _, err := encodeQuestion(q.Request); err == nil {
			valid.InputRequests = append(valid.InputRequests, q)
		}
	}
	questions, err := encodeQuestions(&valid)
	if err != nil {
		return mcp.MultiRoundTripResult{}
	}
	return questions
}

// metaAsks is the key in a result's _meta of the questions in rondo's types, which the
// result carries from the handler to the adapter.
const metaAsks = "rondo/asks"

// carriedAsks encodes as null, should it ever be sent.
type carriedAsks struct{ asks *protocol.InputRequiredResult }

func (carriedAsks) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

var _ json.Marshaler = carriedAsks{}

func carryAsks(asks *protocol.InputRequiredResult) mcp.Result {
	return mcp.Result{
		ResultType: mcp.ResultTypeInputRequired,
		Meta:       &mcp.Meta{AdditionalFields: map[string]any{metaAsks: carriedAsks{asks}}},
	}
}

func findCarried(result mcp.Result) *protocol.InputRequiredResult {
	if result.Meta == nil {
		return nil
	}
	c, _ := result.Meta.AdditionalFields[metaAsks].(carriedAsks)
	return c.asks
}
