package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Question returns a question in mcp-go's types, for [ToolInput], [PromptInput] and
// [ResourceInput]. The schema of a form must be one that the specification allows in an
// elicitation, and is carried in the sealed state; questions whose form is a Go struct
// ([roundtrip.MustQuestion]) need less space. Read the answer with [Elicited]. The
// ElicitationID of a visit is ignored: clients of revision 2025-11-25 get a generated
// one, others none. A mistake is reported to the observer with the key, and the client
// gets an internal error.
func Question(key string, params mcp.ElicitationParams) roundtrip.Question {
	if params.Mode == mcp.ElicitationModeURL {
		return roundtrip.ElicitURL(key, params.Message, params.URL)
	}
	schema, err := json.Marshal(params.RequestedSchema)
	if err != nil {
		schema = nil // reported as an invalid form
	}
	return roundtrip.ElicitSchema(key, params.Message, schema)
}

// SamplingQuestion returns a question to the client's model in mcp-go's types. Read the
// answer with [Sampled].
func SamplingQuestion(key string, params mcp.CreateMessageParams) roundtrip.Question {
	request, err := decodeQuestion(mcp.NewSamplingInputRequest(params))
	if err != nil {
		return roundtrip.CreateMessage(key, nil)
	}
	return roundtrip.CreateMessage(key, request.(*protocol.CreateMessage))
}

// decodeAsks returns the questions in a result of mcp-go, nil if it is complete. A result
// with questions asks even where its result type does not say so.
func decodeAsks(ctx context.Context, result mcp.Result,
	more mcp.MultiRoundTripResult) (*protocol.InputRequiredResult, error) {
	if result.ResultType != mcp.ResultTypeInputRequired && len(more.InputRequests) == 0 {
		return nil, nil
	}
	if asks := findCarried(result); asks != nil {
		return asks, nil
	}
	asks := &protocol.InputRequiredResult{}
	asked := map[string]protocol.InputKind{}
	for _, key := range slices.Sorted(maps.Keys(more.InputRequests)) {
		request, err := decodeQuestion(more.InputRequests[key])
		if err != nil {
			return nil, fmt.Errorf("question %q: %w", key, err)
		}
		asks.InputRequests = append(asks.InputRequests,
			protocol.KeyedRequest{Key: key, Request: request})
		asked[key] = request.Kind()
	}
	if len(asked) == 0 && more.RequestState == "" {
		return asks, nil // the funnel refuses it: the client would have nothing to return
	}
	state, err := encodeAuthorState(ctx, more.RequestState, asked)
	if err != nil {
		return nil, err
	}
	asks.RequestState = state
	return asks, nil
}

// decodeQuestion converts a question from mcp-go's types.
func decodeQuestion(q mcp.InputRequest) (protocol.InputRequest, error) {
	raw, err := q.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var envelope struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		return nil, err
	}
	return protocol.DecodeInputRequest(envelope.Method, envelope.Params)
}

// encodeQuestions converts questions to mcp-go's types. The order of questions and that
// of a sampling request's members are lost; see encodeExact.
func encodeQuestions(asks *protocol.InputRequiredResult) (mcp.MultiRoundTripResult, error) {
	var out mcp.MultiRoundTripResult
	out.RequestState, _ = asks.RequestState.Text()
	if len(asks.InputRequests) == 0 {
		return out, nil
	}
	out.InputRequests = make(mcp.InputRequests, len(asks.InputRequests))
	for _, q := range asks.InputRequests {
		request, err := encodeQuestion(q.Request)
		if err != nil {
			return out, fmt.Errorf("question %q: %w", q.Key, err)
		}
		out.InputRequests[q.Key] = request
	}
	return out, nil
}

func encodeQuestion(q protocol.InputRequest) (mcp.InputRequest, error) {
	var request mcp.InputRequest
	raw, err := protocol.AppendInputRequest(nil, protocol.Latest, q)
	if err != nil {
		return request, err
	}
	if err := request.UnmarshalJSON(raw); err != nil {
		return request, err
	}
	if form, ok := q.(*protocol.ElicitForm); ok {
		// Unchanged, because forms are shown in the order of their fields.
		request.Elicitation.RequestedSchema = form.Schema
	}
	return request, nil
}

// encodeExact returns the JSON of a result with questions, for the rewriter.
func encodeExact(method string, asks *protocol.InputRequiredResult) (json.RawMessage, error) {
	plain := *asks
	plain.Meta = nil // the rewriter takes mcp-go's
	raw, err := protocol.EncodeResult(protocol.Latest, method, &plain)
	if err != nil {
		return nil, fmt.Errorf("mcpgo: %w", err)
	}
	return raw, nil
}
