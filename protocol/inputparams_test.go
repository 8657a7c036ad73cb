package protocol_test

import (
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// The params of a question are the same alone and in a list of questions.
func TestAppendInputParams(t *testing.T) {
	encoded := 0
	meta := protocol.Meta(`{"a":1}`)
	for _, q := range []protocol.InputRequest{
		&protocol.ElicitForm{Message: "m", Schema: json.RawMessage(`{"type":"object","properties":{}}`), Meta: meta},
		&protocol.ElicitURL{Message: "m", URL: "https://example.com/", ElicitationID: "e", Meta: meta},
		&protocol.CreateMessage{MaxTokens: 1, Messages: []protocol.SamplingMessage{}, Meta: meta},
		&protocol.ListRoots{},
		&protocol.ElicitForm{Message: "no schema"},
		(*protocol.ElicitForm)(nil),
	} {
		params, err := protocol.AppendInputParams([]byte("before"), protocol.V20251125, q)
		whole, wholeErr := protocol.AppendInputRequest([]byte("before"), protocol.V20251125, q)
		if err != nil || wholeErr != nil {
			if err == nil || wholeErr == nil || err.Error() != wholeErr.Error() {
				t.Errorf("%T: got error %v, want %v", q, err, wholeErr)
			}
			continue
		}
		encoded++
		want := `before{"method":"` + q.Kind().Method() + `","params":` + string(params[len("before"):]) + `}`
		if string(whole) != want {
			t.Errorf("%T: got %s, want %s", q, whole, want)
		}
	}
	if encoded != 4 {
		t.Errorf("encoded %d questions, want 4", encoded)
	}
}
