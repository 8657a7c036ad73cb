package elicitation_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestGrowth runs a hostile upstream and a hostile client.
func TestGrowth(t *testing.T) {
	reply := json.RawMessage(yes)
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{Principal: alice()})
	call := r.begin(elicitation.Origin{Session: s}, sends(func(_ context.Context,
		m protocol.Message) error {
		if request, ok := m.(*protocol.Request); ok {
			r.HandleReply(s.Sender(), &protocol.Response{ID: request.ID, Result: reply})
		}
		return nil
	}), "up")
	elicit := func(params []byte) bool {
		_, _ = call.Elicit(t.Context(), params)
		return true // outcomes are tested elsewhere
	}
	const head = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}`
	t.Run("questions", func(t *testing.T) {
		testkit.CheckGrowth(t,
			testkit.GrowthReader{Read: elicit, BytesPerByte: 150, ObjectsPerByte: 3},
			testkit.GrowthInput{Name: "message", Make: testkit.Repeat(`{"mode":"form","message":"`,
				`x`, `","requestedSchema":`+schema+`}`)},
			testkit.GrowthInput{Name: "title",
				Make: testkit.Repeat(head+`,"f":{"type":"string","title":"`, `x`, `"}}}}`)},
			testkit.GrowthInput{Name: "values",
				Make: testkit.Repeat(head+`,"f":{"type":"string","enum":[`,
					`"value",`, `1]}}}}`)},
			testkit.GrowthInput{Name: "wrong required",
				Make: testkit.Repeat(head+`},"required":[`, `1,`, `1]}}`)},
			testkit.GrowthInput{Name: "pattern",
				Make: testkit.Repeat(head+`,"f":{"type":"string","pattern":"`,
					`(?i)[b-\\x{10ffff}]`, `"}}}}`)},
			testkit.GrowthInput{Name: "beyond the grammar",
				Make: testkit.Repeat(head+`},"allOf":[`, `1,`, `1]}}`)},
			testkit.GrowthInput{Name: "URL", Make: testkit.Repeat(`{"mode":"url","message":"m","elicitationId":"e","url":"https://a.example/`, `a/`, `"}`)},
			testkit.GrowthInput{Name: "unknown member", Make: testkit.Repeat(`{"mode":"form","message":"m","requestedSchema":`+schema+`,"x":[`, `1,`, `1]}`)},
		)
	})
	t.Run("answers", func(t *testing.T) {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				reply = input
				return elicit(form("?"))
			},
			BytesPerByte: 40, ObjectsPerByte: 0.6,
		},
			testkit.GrowthInput{Name: "unknown fields", Make: testkit.Repeat(`{"action":"accept","content":{"ok":true,"x":[`, `1,`, `1]}}`)},
			testkit.GrowthInput{Name: "wrong type",
				Make: testkit.Repeat(`{"action":"accept","content":{"ok":[`, `1,`, `1]}}`)},
			testkit.GrowthInput{Name: "no object",
				Make: testkit.Repeat(`{"action":"accept","content":[`, `1,`, `1]}`)},
			testkit.GrowthInput{Name: "decline with much beside it",
				Make: testkit.Repeat(`{"action":"decline","_meta":{"x":[`, `1,`, `1]}}`)},
		)
	})
}
