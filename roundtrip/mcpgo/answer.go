package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// Elicited returns the answer to a form or a visit that was asked under key, in
// mcp-go's type: Content is a map[string]any with the form's defaults filled in, nil
// unless Action is accept. It reports false when there is no valid answer; ask then.
// Handlers can also use [roundtrip.AcceptedContent] and the other readers of package
// roundtrip, which are the ones for typed questions.
func Elicited(ctx context.Context, key string) (mcp.ElicitationResult, bool) {
	raw, ok := encodeElicitAnswer(ctx, key)
	if !ok {
		return mcp.ElicitationResult{}, false
	}
	return decodeJSON[mcp.ElicitationResult](raw)
}

// Sampled returns the message with which the client's model answered, and false when
// there is no answer.
func Sampled(ctx context.Context, key string) (mcp.CreateMessageResult, bool) {
	message, ok := roundtrip.Sampled(ctx, key)
	if !ok {
		return mcp.CreateMessageResult{}, false
	}
	raw, err := jsonx.Marshal(message)
	if err != nil {
		return mcp.CreateMessageResult{}, false
	}
	result, err := decodeMessage(raw)
	if err != nil {
		return mcp.CreateMessageResult{}, false
	}
	return *result, true
}

// Roots returns the directories with which the client answered, and false when there is
// no answer.
func Roots(ctx context.Context, key string) (mcp.ListRootsResult, bool) {
	raw, ok := encodeRootsAnswer(ctx, key)
	if !ok {
		return mcp.ListRootsResult{}, false
	}
	return decodeJSON[mcp.ListRootsResult](raw)
}

func decodeJSON[T any](raw json.RawMessage) (T, bool) {
	var v T
	err := json.Unmarshal(raw, &v)
	return v, err == nil
}

// decodeMessage decodes a model's message with its content, which mcp-go leaves undecoded.
func decodeMessage(raw json.RawMessage) (*mcp.CreateMessageResult, error) {
	var result mcp.CreateMessageResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, err
	}
	content, err := mcp.ParseSamplingContent(result.Content)
	if err != nil {
		return nil, err
	}
	result.Content = content
	return &result, nil
}

// encodeElicitAnswer returns the verified answer to a form or a visit as an encoded
// protocol.ElicitResult.
func encodeElicitAnswer(ctx context.Context, key string) (json.RawMessage, bool) {
	outcome, content := roundtrip.Visited(ctx, key), json.RawMessage(nil)
	if outcome == roundtrip.Missing || outcome == roundtrip.Invalid {
		reply := roundtrip.RawAnswer(ctx, key)
		outcome, content = reply.Outcome, reply.Content
	}
	result := protocol.ElicitResult{Action: protocol.ActionAccept, Content: content}
	if outcome != roundtrip.Accepted {
		refused, ok := roundtrip.RefusedAction(ctx, key)
		if !ok {
			return nil, false
		}
		result.Action = refused
	}
	raw, err := jsonx.Marshal(result)
	return raw, err == nil
}

func encodeRootsAnswer(ctx context.Context, key string) (json.RawMessage, bool) {
	roots, ok := roundtrip.Roots(ctx, key)
	if !ok {
		return nil, false
	}
	if roots == nil {
		roots = []protocol.Root{}
	}
	raw, err := jsonx.Marshal(protocol.ListRootsResult{Roots: roots})
	return raw, err == nil
}

// authorState is the sealed state of a handler that returns mcp-go's own results: the
// state that it set, and the questions that it has asked so far, since later runs are
// given the answers to all of them.
type authorState struct {
	Text  string                        `json:"text,omitempty"`
	Asked map[string]protocol.InputKind `json:"asked,omitempty"`
}

// readAuthorState returns the state of the round before.
func readAuthorState(ctx context.Context) authorState {
	var state authorState
	if text, ok := roundtrip.State[string](ctx); ok &&
		jsonx.Unmarshal([]byte(text), &state) != nil {
		return authorState{}
	}
	return state
}

// encodeAuthorState returns the state that is sealed with these questions.
func encodeAuthorState(ctx context.Context, text string,
	asked map[string]protocol.InputKind) (protocol.RequestState, error) {
	state := authorState{text, asked}
	for key, kind := range readAuthorState(ctx).Asked {
		if _, again := asked[key]; !again {
			state.Asked[key] = kind
		}
	}
	raw, err := jsonx.Marshal(state)
	if err != nil {
		return protocol.RequestState{}, fmt.Errorf("requestState: %w", err)
	}
	return protocol.StateText(string(raw)), nil
}

// restoreReturned returns the fields of mcp-go's request as the handler may see them: the
// state that it set, and the verified answers, those of earlier rounds included.
func restoreReturned(ctx context.Context) mcp.MultiRoundTripParams {
	// Reading the state would fix the flow version, which handlers may still set.
	if _, ok := roundtrip.StateOfAnyVersion[string](ctx); !ok {
		return mcp.MultiRoundTripParams{}
	}
	state := readAuthorState(ctx)
	out := mcp.MultiRoundTripParams{RequestState: state.Text}
	for _, key := range slices.Sorted(maps.Keys(state.Asked)) {
		raw, ok := encodeAnswerTo(ctx, key, state.Asked[key])
		if !ok {
			continue
		}
		if out.InputResponses == nil {
			out.InputResponses = mcp.InputResponses{}
		}
		var response mcp.InputResponse
		if response.UnmarshalJSON(raw) == nil {
			out.InputResponses[key] = response
		}
	}
	return out
}

func encodeAnswerTo(ctx context.Context, key string,
	kind protocol.InputKind) (json.RawMessage, bool) {
	switch kind {
	case protocol.KindElicitForm, protocol.KindElicitURL:
		return encodeElicitAnswer(ctx, key)
	case protocol.KindCreateMessage:
		message, ok := roundtrip.Sampled(ctx, key)
		if !ok {
			return nil, false
		}
		raw, err := jsonx.Marshal(message)
		return raw, err == nil
	case protocol.KindListRoots:
		return encodeRootsAnswer(ctx, key)
	}
	return nil, false
}
