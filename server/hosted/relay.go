package hosted

import (
	"context"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A relayState is what travels with the client while it answers what a handler has returned.
type relayState struct {
	Asked []askedQuestion `json:"asked,omitempty"`
	State *[]byte         `json:"state,omitempty"` // of the handler; nil: it set none
}

type askedQuestion struct {
	Key  string             `json:"key"`
	Kind protocol.InputKind `json:"kind"`
}

// askAgain returns the questions of a handler as those of the server in front.
func askAgain(asks *protocol.InputRequiredResult) protocol.Result {
	var next relayState
	if text, present := asks.RequestState.Text(); present {
		state := []byte(text)
		next.State = &state
	}
	for _, q := range asks.InputRequests {
		next.Asked = append(next.Asked, askedQuestion{q.Key, q.Request.Kind()})
	}
	result := roundtrip.InputRequired(roundtrip.WithState(next))
	result.InputRequests = asks.InputRequests
	return result
}

// retryOf returns the answers to what the handler has returned in the round before, and its state.
// given is what the client has sent.
func (l *leg) retryOf(given protocol.Retry) (retry protocol.Retry) {
	state, resumed := roundtrip.State[relayState](l.ctx)
	if !resumed {
		if l.lenient {
			retry.InputResponses = given.InputResponses
		}
		return retry
	}
	if state.State != nil {
		retry.RequestState = protocol.StateText(string(*state.State))
	}
	for _, q := range state.Asked {
		if raw, ok := readAnswer(l.ctx, q); ok {
			retry.InputResponses = append(retry.InputResponses,
				protocol.KeyedResponse{Key: q.Key, Result: raw})
		}
	}
	return retry
}

func readAnswer(ctx context.Context, q askedQuestion) (json.RawMessage, bool) {
	var answer any
	var ok bool
	if action, refused := roundtrip.RefusedAction(ctx, q.Key); refused {
		answer, ok = protocol.ElicitResult{Action: action}, true
	} else {
		switch q.Kind {
		case protocol.KindElicitForm:
			reply := roundtrip.RawAnswer(ctx, q.Key)
			ok = reply.Outcome == roundtrip.Accepted
			answer = protocol.ElicitResult{Action: protocol.ActionAccept, Content: reply.Content}
		case protocol.KindElicitURL:
			ok = roundtrip.Visited(ctx, q.Key) == roundtrip.Accepted
			answer = protocol.ElicitResult{Action: protocol.ActionAccept}
		case protocol.KindCreateMessage:
			result, sampled := roundtrip.Sampled(ctx, q.Key)
			answer, ok = &result, sampled
		case protocol.KindListRoots:
			roots, listed := roundtrip.Roots(ctx, q.Key)
			answer, ok = &protocol.ListRootsResult{Roots: roots}, listed
		}
	}
	raw, err := json.Marshal(answer)
	return raw, ok && err == nil
}
