package roundtrip_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
)

// TestStateGrowth sends states that no key sealed. Too long ones are not even decoded.
func TestStateGrowth(t *testing.T) {
	c := serve(t, reader)
	c.ask("form", "url", "sample", "roots")
	sealed, _ := c.asked.RequestState.Text()
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			call := toolCall()
			call.Responses, call.State = answers("form", declined),
				protocol.StateText(string(input))
			_, err := c.funnel.Do(context.Background(), call, c.handler)
			return err == nil
		},
		BytesPerByte: 8, ObjectsPerByte: 0.01,
	}, testkit.GrowthInput{Name: "letters", Make: testkit.Repeat("", "A", ""), Refused: true},
		testkit.GrowthInput{Name: "longer than sealed", Make: testkit.Repeat(sealed, "A", ""),
			Refused: true},
		testkit.GrowthInput{Name: "not base64", Make: testkit.Repeat(sealed[:8], "\u00e9", ""),
			Refused: true},
		testkit.GrowthInput{Name: "dots", Make: testkit.Repeat("", ".", ""), Refused: true},
	)
}

// TestAnswerGrowth sends answers of all sizes and shapes to each kind. Unusable ones are dropped.
func TestAnswerGrowth(t *testing.T) {
	handler := rounds(asks(elicit("form"),
		roundtrip.CreateMessage("sample", &protocol.CreateMessage{}),
		roundtrip.ListRoots("roots")), func(ctx context.Context) (protocol.Result, error) {
		_, sampled := roundtrip.Sampled(ctx, "sample")
		roots, listed := roundtrip.Roots(ctx, "roots")
		return say(fmt.Sprint(replyTo(ctx, "form").Outcome, sampled, len(roots) > 0 && listed))
	})
	c := serve(t, handler)
	c.ask("form", "sample", "roots")
	state := c.asked.RequestState
	for _, tt := range []struct{ key, head, part, tail, used string }{
		{"form", `{"action":"accept","content":{"reason":"`, `x`, `"}}`, "accepted"},
		{"form", `{"action":"accept","content":{"reason":1,"x":[`, `1,`, `1]}}`, "invalid"},
		{"form", `{"action":"accept","content":{"reason":[`, `[1],`, `1]}}`, "invalid"},
		{"form", `{"action":"accept","content":[`, `1,`, `1]}`, "missing"},
		{"sample", `{"role":"assistant","model":"m","content":{"type":"text","text":"`, `x`, `"}}`, "true"},
		{"sample", `{"role":"assistant","model":"m","content":[`, `{"type":"text","text":"x"},`, `1]}`, "false"},
		{"roots", `{"roots":[`, `{"uri":"file:///a"},`, `{"uri":"file:///b"}]}`, "true"},
		{"roots", `{"roots":[`, `{"uri":"file:///a"},`, `{}]}`, "false"},
	} {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				call := toolCall()
				call.Responses, call.State = answers(tt.key, string(input)), state
				result, err := c.funnel.Do(context.Background(), call, c.handler)
				return err == nil && (strings.Contains(show(result), tt.used) ||
					strings.Contains(show(result), "input"))
			},
			BytesPerByte: 40, ObjectsPerByte: 0.6,
		}, testkit.GrowthInput{Name: tt.key + " " + tt.used,
			Make: testkit.Repeat(tt.head, tt.part, tt.tail)})
	}
}
