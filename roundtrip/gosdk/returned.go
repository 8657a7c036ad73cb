//lint:file-ignore SA1019 sampling, roots and logging are deprecated, but supported

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

// resultParts is what the SDK's three types of results have in common. A handler may set
// content, questions and state in any combination.
type resultParts struct {
	requests mcp.InputRequestMap
	state    string
	content  bool // not empty
	failed   bool // isError
}

// isAsking reports whether the result is not complete. One with a state is not, whatever
// its content: for typed tools the SDK fills that with the zero value of the output.
func (p resultParts) isAsking() bool { return p.requests != nil || p.state != "" }

// buildAsks converts the questions. The handler's state is sealed, together with the keys
// of all questions so far, since later runs are given the answers to all of them.
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

// authorState is the state with [roundtrip.WithState] of handlers that do not use package
// roundtrip: the state and the questions that they returned in the SDK's types.
type authorState struct {
	State string     `json:"s,omitempty"`
	Asked []askedKey `json:"q,omitempty"`
}

type askedKey struct {
	Key  string             `json:"k"`
	Kind protocol.InputKind `json:"t"`
}

// restoreReturned returns the answers to the questions that the handler has returned in
// earlier rounds, and its state, in the SDK's types. An answer that is not valid is left
// out, so that the handler asks again.
func restoreReturned(ctx context.Context) (mcp.InputResponseMap, string) {
	// Reading the state would fix the flow version, which handlers may still set.
	kept, ok := roundtrip.StateOfAnyVersion[authorState](ctx)
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
		return encodeElicitResult(ctx, q.Key, reply.Outcome, reply.Content)
	case protocol.KindElicitURL:
		return encodeElicitResult(ctx, q.Key, roundtrip.Visited(ctx, q.Key), nil)
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

// encodeElicitResult converts an answer to the SDK's type; nil if there is none.
func encodeElicitResult(ctx context.Context, key string, outcome roundtrip.Outcome,
	content json.RawMessage) mcp.InputResponse {
	if outcome == roundtrip.Accepted {
		result := &mcp.ElicitResult{Action: "accept"}
		if content != nil && json.Unmarshal(content, &result.Content) != nil {
			return nil
		}
		return result
	}
	if action, ok := roundtrip.RefusedAction(ctx, key); ok {
		return &mcp.ElicitResult{Action: string(action)}
	}
	return nil
}

// encodeResponse converts an answer to the SDK's type; nil if that cannot hold it.
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
