package mcpgo

import (
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// ToolInput returns the result with which a tool's handler asks for what it
// needs, in guard style: the handler runs again from its start when the
// answers are there. The items are those of [roundtrip.InputRequired]; the
// questions are shown in their order where [Adapter.Handler] or
// [Adapter.Listen] carries them, otherwise in that of their keys.
func ToolInput(items ...roundtrip.Item) *mcp.CallToolResult {
	asks := roundtrip.InputRequired(items...)
	return &mcp.CallToolResult{Result: carryAsks(asks), MultiRoundTripResult: encodeShown(asks)}
}

// PromptInput is [ToolInput] for handlers of prompts.
func PromptInput(items ...roundtrip.Item) *mcp.GetPromptResult {
	asks := roundtrip.InputRequired(items...)
	return &mcp.GetPromptResult{Result: carryAsks(asks), MultiRoundTripResult: encodeShown(asks)}
}

// ResourceInput is [ToolInput] for handlers of resources and templates, which
// in mcp-go return contents and an error and nothing else. To a client of
// revision 2026-07-28 the question can only go out through [Adapter.Handler] or
// [Adapter.Listen]; without them it gets an error.
func ResourceInput(items ...roundtrip.Item) ([]mcp.ResourceContents, error) {
	return nil, &askingError{roundtrip.InputRequired(items...)}
}

// askingError is how a resource's handler asks.
type askingError struct{ result *protocol.InputRequiredResult }

func (*askingError) Error() string {
	return "input required: this server is not installed with package mcpgo"
}

// encodeShown are the questions in mcp-go's types, for middleware between the handler
// and the adapter. What they cannot say is not lost, nor are mistakes.
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

// metaAsks is the key under which a result carries what its author asked for,
// from the handler to the adapter.
const metaAsks = "rondo/asks"

// carriedAsks encodes as null, should it ever reach a wire.
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
