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

// parts is what the SDK's three results have in common: each can be content,
// questions, a state to come back with, or any mixture.
type parts struct {
	requests mcp.InputRequestMap
	state    string
	content  bool
	failed   bool
}

// asks reports whether the result is no answer yet. A state has no place in one
// that is; beside a state alone, content is the zero value that the SDK fills in
// for typed tools.
func (p parts) asks() bool { return p.requests != nil || p.state != "" }

// inputRequired reads the questions. The handler's state becomes the author's
// own, sealed, together with what is needed to give the answers back in the
// SDK's types: those of earlier rounds, too.
func (p parts) inputRequired(ctx context.Context) (*protocol.InputRequiredResult, error) {
	switch {
	case p.requests != nil && p.content:
		return nil, errors.New("the handler returned content and questions at once")
	case p.failed:
		return nil, errors.New("the handler returned a failure, and a state or questions, at once")
	case len(p.requests) == 0 && p.state == "":
		return nil, errors.New("the handler returned an empty map of questions, and no state")
	}
	asked, err := questions(p.requests)
	if err != nil {
		return nil, err
	}
	kept, _ := roundtrip.State[keptState](ctx)
	kept.State = p.state
	for _, q := range asked {
		kept.Asked = slices.DeleteFunc(kept.Asked, func(k keptKey) bool { return k.Key == q.Key })
		kept.Asked = append(kept.Asked, keptKey{q.Key, q.Request.Kind()})
	}
	asks := roundtrip.InputRequired(roundtrip.WithState(kept))
	asks.InputRequests = asked
	return asks, nil
}

// keptState is what the author's state holds of handlers that know nothing of
// it: the state and the questions that one has returned in the SDK's types, and
// the keys of those that one has asked without.
type keptState struct {
	State   string    `json:"s,omitempty"`
	Asked   []keptKey `json:"q,omitempty"`
	Unkeyed []string  `json:"u,omitempty"`
}

type keptKey struct {
	Key  string             `json:"k"`
	Kind protocol.InputKind `json:"t"`
}

// returned gives the answers to the questions that the handler has returned in
// earlier legs, and its state, in the SDK's types. An answer that does not
// fit its question is not there: handlers ask again for what is missing.
func returned(ctx context.Context) (mcp.InputResponseMap, string) {
	// Handlers that are given nothing can still choose a FlowVersion.
	kept, ok := roundtrip.PeekState[keptState](ctx)
	if !ok || kept.State == "" && kept.Asked == nil {
		return nil, ""
	}
	kept, _ = roundtrip.State[keptState](ctx)
	answers := mcp.InputResponseMap{}
	for _, q := range kept.Asked {
		if answer := answerOf(ctx, q); answer != nil {
			answers[q.Key] = answer
		}
	}
	return answers, kept.State
}

func answerOf(ctx context.Context, q keptKey) mcp.InputResponse {
	switch q.Kind {
	case protocol.KindElicitForm:
		reply := roundtrip.RawAnswer(ctx, q.Key)
		return elicited(reply.Outcome, reply.Content)
	case protocol.KindElicitURL:
		return elicited(roundtrip.Visited(ctx, q.Key), nil)
	case protocol.KindCreateMessage:
		if result, ok := roundtrip.Sampled(ctx, q.Key); ok {
			return responseOf(result, &mcp.CreateMessageWithToolsResult{})
		}
	case protocol.KindListRoots:
		if roots, ok := roundtrip.Roots(ctx, q.Key); ok {
			return responseOf(protocol.ListRootsResult{Roots: roots}, &mcp.ListRootsResult{})
		}
	}
	return nil
}

// elicited writes an answer as the SDK has it; nil if there is none.
func elicited(outcome roundtrip.Outcome, content json.RawMessage) mcp.InputResponse {
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

// responseOf converts an answer into the SDK's type; nil if that cannot hold it.
func responseOf(ours any, theirs interface {
	mcp.InputResponse
	mcp.Result
}) mcp.InputResponse {
	if err := convert(ours, theirs); err != nil {
		return nil
	}
	return theirs
}

func convert(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}
