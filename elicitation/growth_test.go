package elicitation_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/internal/growthtest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestGrowth has a hostile upstream ask, and a hostile client answer.
func TestGrowth(t *testing.T) {
	r := newRig(t, elicitation.Options{})
	s := r.attach(elicitation.SessionInfo{Principal: alice()})
	reply := json.RawMessage(yes)
	frames := elicitation.DeliverFunc(func(ctx context.Context, m protocol.Message) error {
		if request, ok := m.(*protocol.Request); ok {
			r.HandleReply(s.Sender(), &protocol.Response{ID: request.ID, Result: reply})
			return nil
		}
		return nil
	})
	call := r.begin(elicitation.Origin{Session: s}, elicitation.ViaFrames(frames), "up")
	defer call.End()
	elicit := func(params []byte) bool {
		_, _ = call.Elicit(t.Context(), params, nil)
		return true // how each ends is the subject of other tests
	}
	const head = `{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}`
	t.Run("questions", func(t *testing.T) {
		growthtest.Test(t, growthtest.Reader{Read: elicit, BytesPerByte: 150, ObjectsPerByte: 3},
			growthtest.Input{Name: "message", Make: growthtest.Repeat(`{"mode":"form","message":"`,
				`x`, `","requestedSchema":`+schema+`}`)},
			growthtest.Input{Name: "title",
				Make: growthtest.Repeat(head+`,"f":{"type":"string","title":"`, `x`, `"}}}}`)},
			growthtest.Input{Name: "values",
				Make: growthtest.Repeat(head+`,"f":{"type":"string","enum":[`,
					`"value",`, `1]}}}}`)},
			growthtest.Input{Name: "wrong required",
				Make: growthtest.Repeat(head+`},"required":[`, `1,`, `1]}}`)},
			growthtest.Input{Name: "pattern",
				Make: growthtest.Repeat(head+`,"f":{"type":"string","pattern":"`,
					`(?i)[b-\\x{10ffff}]`, `"}}}}`)},
			growthtest.Input{Name: "beyond the grammar",
				Make: growthtest.Repeat(head+`},"allOf":[`, `1,`, `1]}}`)},
			growthtest.Input{Name: "URL", Make: growthtest.Repeat(`{"mode":"url","message":"m","elicitationId":"e","url":"https://a.example/`, `a/`, `"}`)},
			growthtest.Input{Name: "unknown member", Make: growthtest.Repeat(`{"mode":"form","message":"m","requestedSchema":`+schema+`,"x":[`, `1,`, `1]}`)},
		)
	})
	t.Run("answers", func(t *testing.T) {
		growthtest.Test(t, growthtest.Reader{
			Read: func(input []byte) bool {
				reply = input
				return elicit(form("?"))
			},
			BytesPerByte: 40, ObjectsPerByte: 0.6,
		},
			growthtest.Input{Name: "unknown fields", Make: growthtest.Repeat(`{"action":"accept","content":{"ok":true,"x":[`, `1,`, `1]}}`)},
			growthtest.Input{Name: "wrong type",
				Make: growthtest.Repeat(`{"action":"accept","content":{"ok":[`, `1,`, `1]}}`)},
			growthtest.Input{Name: "no object",
				Make: growthtest.Repeat(`{"action":"accept","content":[`, `1,`, `1]}`)},
			growthtest.Input{Name: "decline with much beside it",
				Make: growthtest.Repeat(`{"action":"decline","_meta":{"x":[`, `1,`, `1]}}`)},
		)
	})
}
