package bridge_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/bridge"
)

// FuzzMessages: a replica answers any message of another with JSON.
func FuzzMessages(f *testing.F) {
	hub := elicitation.NewHub()
	sender, receiver := hub.Bus(), hub.Bus()
	newRig(f, bridge.Options{Bus: bridge.ShareBus(receiver)})
	kinds := [...]string{"bridge.resume", "bridge.outcome", "bridge.progress"}
	for kind := range kinds {
		f.Add(uint8(kind), []byte(`{}`))
		f.Add(uint8(kind), []byte(`null`))
		f.Add(uint8(kind), []byte(`{"waiter":"w","progress":{"progressToken":1,"progress":1e999}}`))
		f.Add(uint8(kind), []byte(`{"call":"c","round":-1,"binding":"AAAAAAAAAAAAAAAAAAAAAAAA`+
			`AAAAAAAAAAAAAAAAAAA=","answers":{"q":{"action":"accept"}},"progress":true}`))
	}
	f.Fuzz(func(t *testing.T, kind uint8, message []byte) {
		reply, err := sender.SendTo(t.Context(), receiver.Name(), kinds[int(kind)%len(kinds)],
			message)
		if err != nil || reply != nil && !json.Valid(reply) {
			t.Errorf("got %q, %v", reply, err)
		}
	})
}

// FuzzState: whatever is decoded is encoded to something that decodes to the same.
func FuzzState(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0, 2, 'i', 'd', 3, 8})
	f.Add(append([]byte{1, 1, 'o', 2, 'i', 'd', 3, 8}, make([]byte, 32)...))
	f.Add(append([]byte{1, 0x81, 0, 'o', 2, 'i', 'd', 3, 8}, make([]byte, 32)...))
	f.Add(append([]byte{2, 1, 'o', 2, 'i', 'd', 3, 8}, make([]byte, 32)...))
	f.Add(append([]byte{1}, bytes.Repeat([]byte{0xff}, 64)...))
	f.Fuzz(func(t *testing.T, plain []byte) {
		once, err := bridge.ReencodeState(plain)
		if err != nil {
			return
		}
		twice, err := bridge.ReencodeState(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Errorf("%x became %x and %x, %v", plain, once, twice, err)
		}
	})
}

// TestStatesAreWhole: no part of a state, and none with more, is one.
func TestStatesAreWhole(t *testing.T) {
	whole := append([]byte{1, 1, 'o', 2, 'i', 'd', 3, 8}, make([]byte, 32)...)
	if _, err := bridge.ReencodeState(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if _, err := bridge.ReencodeState(whole[:n]); err == nil {
			t.Errorf("the first %d bytes are a state", n)
		}
	}
	if _, err := bridge.ReencodeState(append(whole, 0)); err == nil {
		t.Error("one byte more is a state")
	}
}

// TestStatesOfLateRoundsAreRead: Options.MaxRounds may be more than any length in a state.
func TestStatesOfLateRoundsAreRead(t *testing.T) {
	late := append([]byte{1, 1, 'o', 2, 'i', 'd', 0xd0, 0x0f, 8}, make([]byte, 32)...) // 2000
	if got, err := bridge.ReencodeState(late); err != nil || !bytes.Equal(got, late) {
		t.Errorf("the state of round 2000 became %x, %v", got, err)
	}
}
