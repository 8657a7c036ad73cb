// Package relay passes another server's questions on to the clients of a rondo server: questions
// returned with a state, and questions pushed while the other's call, which runs once, waits here.
package relay

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// A State travels with a client that was asked, sealed by the server and bound to the caller and
// the request. Gateways of earlier releases use the same names.
type State struct {
	// Asked are the questions of the last round.
	Asked []Asked `json:"asked,omitempty"`
	// Peer is the unchanged requestState of a server that returned its questions, or nil.
	Peer *[]byte `json:"upstream,omitempty"`
	// Owner is the token of the replica that holds the call Parked; Round is the leg to answer.
	Owner  string `json:"owner,omitempty"`
	Parked string `json:"parked,omitempty"`
	Round  int    `json:"round,omitempty"`
}

// Asked pairs the client's key of a question with the asking server's.
type Asked struct {
	Key  string             `json:"key"`
	Peer string             `json:"upstream"`
	Kind protocol.InputKind `json:"kind"`
}

// An Answer is a client's answer to a question.
type Answer struct {
	Action protocol.ElicitAction
	Result any // of an accept: the content of a form, or the result of sampling
}

// Ask returns the outcome that asks the client another server's questions. The next leg reads next
// with [roundtrip.State]. The questions' forms need not follow the grammar for authors.
func Ask(questions protocol.InputRequests, next any) protocol.Result {
	result := roundtrip.InputRequired(roundtrip.WithState(next), roundtrip.WithoutAnswers())
	result.InputRequests = questions
	return result
}

// NoteReturned returns a server's returned questions under the client's keys, and the state to ask
// them with. keyOf returns the key of a question by its number, from 1.
func NoteReturned(asks protocol.InputRequests, state protocol.RequestState,
	keyOf func(number int, key string) string) (protocol.InputRequests, State) {
	var next State
	if text, present := state.Text(); present {
		data := []byte(text)
		next.Peer = &data
	}
	var questions protocol.InputRequests
	for i, q := range asks {
		key := keyOf(i+1, q.Key)
		next.Asked = append(next.Asked, Asked{Key: key, Peer: q.Key, Kind: q.Request.Kind()})
		questions = append(questions, protocol.KeyedRequest{Key: key, Request: q.Request})
	}
	return questions, next
}

// Retry returns this leg's answers for the server that asked, with its state.
func (s *State) Retry(ctx context.Context) (retry protocol.Retry, err error) {
	if s.Peer != nil {
		retry.RequestState = protocol.StateText(string(*s.Peer))
	}
	for _, q := range s.Asked {
		a, ok := readAnswer(ctx, q.Key, q.Kind)
		if !ok {
			continue
		}
		raw, err := a.Encode()
		if err != nil {
			return retry, err
		}
		retry.InputResponses = append(retry.InputResponses,
			protocol.KeyedResponse{Key: q.Peer, Result: raw})
	}
	return retry, nil
}

// readAnswers returns the client's answers, without missing and invalid answers.
func readAnswers(ctx context.Context, asked []Asked) map[string]Answer {
	answers := map[string]Answer{}
	for _, q := range asked {
		if a, ok := readAnswer(ctx, q.Key, q.Kind); ok {
			answers[q.Key] = a
		}
	}
	return answers
}

func readAnswer(ctx context.Context, key string, kind protocol.InputKind) (Answer, bool) {
	if action, refused := roundtrip.RefusedAction(ctx, key); refused {
		return Answer{Action: action}, true
	}
	switch kind {
	case protocol.KindElicitForm:
		reply := roundtrip.RawAnswer(ctx, key)
		return Answer{protocol.ActionAccept, reply.Content}, reply.Outcome == roundtrip.Accepted
	case protocol.KindElicitURL:
		accepted := roundtrip.Visited(ctx, key) == roundtrip.Accepted
		return Answer{Action: protocol.ActionAccept}, accepted
	case protocol.KindCreateMessage:
		result, sampled := roundtrip.Sampled(ctx, key)
		return Answer{protocol.ActionAccept, &result}, sampled
	case protocol.KindListRoots:
		roots, listed := roundtrip.Roots(ctx, key)
		return Answer{protocol.ActionAccept, &protocol.ListRootsResult{Roots: roots}}, listed
	}
	return Answer{}, false
}

// decodeAnswer decodes an answer of a session's client.
func decodeAnswer(kind protocol.InputKind, raw json.RawMessage) (Answer, error) {
	switch kind {
	case protocol.KindCreateMessage:
		result, err := protocol.DecodeCreateMessageResult(raw)
		return Answer{protocol.ActionAccept, result}, err
	case protocol.KindListRoots:
		result, err := protocol.DecodeListRootsResult(raw)
		return Answer{protocol.ActionAccept, result}, err
	}
	result, err := protocol.DecodeElicitResult(raw)
	if err != nil || result.Content == nil {
		return Answer{Action: result.Action}, err
	}
	return Answer{result.Action, result.Content}, nil
}

// Encode returns the answer for the server that asked.
func (a Answer) Encode() (json.RawMessage, error) {
	switch result := a.Result.(type) {
	case *protocol.CreateMessageResult, *protocol.ListRootsResult:
		return json.Marshal(result)
	case json.RawMessage:
		return json.Marshal(protocol.ElicitResult{Action: a.Action, Content: result})
	}
	return json.Marshal(protocol.ElicitResult{Action: a.Action})
}

// digestAnswers identifies the answers of a leg.
func digestAnswers(answers map[string]Answer, asked []Asked) ([32]byte, error) {
	h := sha256.New()
	for _, q := range asked {
		a, ok := answers[q.Key]
		if !ok {
			continue
		}
		raw, err := a.Encode()
		if err != nil {
			return [32]byte{}, err
		}
		part := sha256.Sum256(append([]byte(q.Key+"\x00"), raw...))
		h.Write(part[:])
	}
	return [32]byte(h.Sum(nil)), nil
}
