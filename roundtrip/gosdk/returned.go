//lint:file-ignore SA1019 sampling, roots and logging are deprecated, and supported for as long as they are

package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// resultParts is what the SDK's three results have in common: each can be content,
// questions, a state to come back with, or any mixture.
type resultParts struct {
	requests mcp.InputRequestMap
	state    string
	content  bool
	failed   bool
}

// isAsking reports whether the result is no answer yet. A state has no place in one
// that is; beside a state alone, content is the zero value that the SDK fills in
// for typed tools.
func (p resultParts) isAsking() bool { return p.requests != nil || p.state != "" }

// buildAsks reads the questions. The handler's state becomes the author's
// own, sealed, together with what is needed to give the answers back in the
// SDK's types: those of earlier rounds, too.
func (p resultParts) buildAsks(ctx context.Context) (*protocol.InputRequiredResult, error) {
	switch {
	case p.requests != nil && p.content:
		return nil, errors.New("the handler returned content and questions at once")
	case p.failed:
		return nil, errors.New("the handler returned a failure, and a state or questions, at once")
	case len(p.requests) == 0 && p.state == "":
		return nil, errors.New("the handler returned an empty map of questions, and no state")
	}
	asked, err := decodeQuestions(p.requests)
	if err != nil {
		return nil, err
	}
	kept, _ := roundtrip.State[authorState](ctx)
	kept.State = p.state
	for _, q := range asked {
		kept.Asked = slices.DeleteFunc(kept.Asked, func(k askedKey) bool { return k.Key == q.Key })
		kept.Asked = append(kept.Asked, askedKey{q.Key, q.Request.Kind()})
	}
	asks := roundtrip.InputRequired(roundtrip.WithState(kept))
	asks.InputRequests = asked
	return asks, nil
}

// authorState is what the author's state holds of handlers that know nothing of
// it: the state and the questions that one has returned in the SDK's types, and
// the keys of those that one has asked without.
type authorState struct {
	State   string     `json:"s,omitempty"`
	Asked   []askedKey `json:"q,omitempty"`
	Unkeyed []string   `json:"u,omitempty"`
}

type askedKey struct {
	Key  string             `json:"k"`
	Kind protocol.InputKind `json:"t"`
}

// restoreReturned gives the answers to the questions that the handler has returned in
// earlier legs, and its state, in the SDK's types. An answer that does not
// fit its question is not there: handlers ask again for what is missing.
func restoreReturned(ctx context.Context) (mcp.InputResponseMap, string) {
	// Handlers that are given nothing can still choose a FlowVersion.
	kept, ok := roundtrip.PeekState[authorState](ctx)
	if !ok || kept.State == "" && kept.Asked == nil {
		return nil, ""
	}
	kept, _ = roundtrip.State[authorState](ctx)
	answers := mcp.InputResponseMap{}
	for _, q := range kept.Asked {
		if answer := encodeAnswer(ctx, q); answer != nil {
			answers[q.Key] = answer
		}
	}
	return answers, kept.State
}

func encodeAnswer(ctx context.Context, q askedKey) mcp.InputResponse {
	switch q.Kind {
	case protocol.KindElicitForm:
		reply := roundtrip.RawAnswer(ctx, q.Key)
		return encodeElicitResult(reply.Outcome, reply.Content)
	case protocol.KindElicitURL:
		return encodeElicitResult(roundtrip.Visited(ctx, q.Key), nil)
	case protocol.KindCreateMessage:
		if result, ok := roundtrip.Sampled(ctx, q.Key); ok {
			return encodeResponse(result, &mcp.CreateMessageWithToolsResult{})
		}
	case protocol.KindListRoots:
		if roots, ok := roundtrip.Roots(ctx, q.Key); ok {
			return encodeResponse(protocol.ListRootsResult{Roots: roots}, &mcp.ListRootsResult{})
		}
	}
	return nil
}

// encodeElicitResult writes an answer as the SDK has it; nil if there is none.
func encodeElicitResult(outcome roundtrip.Outcome, content json.RawMessage) mcp.InputResponse {
	switch outcome {
	case roundtrip.Accepted:
		result := &mcp.ElicitResult{Action: "accept"}
		if content != nil && json.Unmarshal(content, &result.Content) != nil {
			return nil
		}
		return result
	case roundtrip.Declined:
		return &mcp.ElicitResult{Action: "decline"}
	case roundtrip.Cancelled:
		return &mcp.ElicitResult{Action: "cancel"}
	}
	return nil
}

// encodeResponse converts an answer into the SDK's type; nil if that cannot hold it.
func encodeResponse(ours any, theirs interface {
	mcp.InputResponse
	mcp.Result
}) mcp.InputResponse {
	if err := convertJSON(ours, theirs); err != nil {
		return nil
	}
	return theirs
}

func convertJSON(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
