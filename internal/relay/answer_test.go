package relay_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/rondo-mcp/rondo/internal/relay"
	"github.com/rondo-mcp/rondo/protocol"
)

// Waiting flows outlive an upgrade: the names are from release 0.1.0.
func TestStatesOfEarlierReleasesAreRead(t *testing.T) {
	peer := []byte("state of the peer")
	want := relay.State{
		Asked: []relay.Asked{{Key: "round-1-question-1", Peer: "a",
			Kind: protocol.KindElicitForm}},
		Peer: &peer, Owner: "replica", Parked: "call", Round: 2,
	}
	const kept = `{"asked":[{"key":"round-1-question-1","upstream":"a","kind":"elicitation.form"}],` +
		`"upstream":"c3RhdGUgb2YgdGhlIHBlZXI=","owner":"replica","parked":"call","round":2}`
	var got relay.State
	if err := json.Unmarshal([]byte(kept), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if raw, err := json.Marshal(want); string(raw) != kept {
		t.Errorf("got %s, %v, want %s", raw, err, kept)
	}
}

func TestReturnedQuestionsAreAskedUnderOtherKeys(t *testing.T) {
	asks := protocol.InputRequests{{Key: "a", Request: &protocol.ElicitForm{Message: "A?"}},
		{Key: "b", Request: &protocol.ListRoots{}}}
	questions, next := relay.NoteReturned(asks, protocol.StateText(""),
		func(number int, key string) string { return string(rune('0'+number)) + key })
	if len(questions) != 2 || questions[0].Key != "1a" || questions[1].Key != "2b" ||
		questions[1].Request != asks[1].Request {
		t.Errorf("got %v", questions)
	}
	want := []relay.Asked{{Key: "1a", Peer: "a", Kind: protocol.KindElicitForm},
		{Key: "2b", Peer: "b", Kind: protocol.KindListRoots}}
	if !reflect.DeepEqual(next.Asked, want) || next.Peer == nil || len(*next.Peer) != 0 {
		t.Errorf("got %+v: an empty state is a state", next)
	}
	if _, next = relay.NoteReturned(asks, protocol.RequestState{},
		func(_ int, key string) string { return key }); next.Peer != nil {
		t.Errorf("got %+v where there is no state", next)
	}
}

func TestAnswersAreEncodedAsResults(t *testing.T) {
	for want, answer := range map[string]relay.Answer{
		`{"action":"decline"}`: {Action: protocol.ActionDecline},
		`{"action":"accept","content":{"a":1}}`: {Action: protocol.ActionAccept,
			Result: json.RawMessage(`{"a":1}`)},
		`{"roots":[]}`: {Action: protocol.ActionAccept,
			Result: &protocol.ListRootsResult{Roots: []protocol.Root{}}},
	} {
		if got, err := answer.Encode(); string(got) != want || err != nil {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
