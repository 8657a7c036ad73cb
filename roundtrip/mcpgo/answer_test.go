package mcpgo_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// TestHandlersSeeValidAnswersOnly: what is no answer to the question does not reach a
// handler that reads mcp-go's own fields.
func TestHandlersSeeValidAnswersOnly(t *testing.T) {
	over(t, nil, addMistakes, func(t *testing.T, send sender) {
		good := request{method: protocol.MethodCallTool, target: "good"}
		for _, tc := range []struct{ name, answer, want string }{
			{"accepted", `{"action":"accept","content":{"zeal":"much"}}`, "accept much 2"},
			{"declined", `{"action":"decline"}`, "decline <nil> <nil>"},
			{"null", `null`, "asks"},
			{"in an envelope", `{"method":"elicitation/create","result":{"action":"accept","content":{"zeal":"much"}}}`, "asks"},
			{"two spellings", `{"action":"decline","Action":"accept"}`, "decline <nil> <nil>"},
			{"the other spelling", `{"ACTION":"accept","content":{"zeal":"much"}}`, "asks"},
			{"no content", `{"action":"accept"}`, "asks"},
			{"what was not asked for", `{"action":"accept","content":{"zeal":"much","evil":true}}`, "accept much 2"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				first := send(good.message())
				got := send(good.retry(first,
					`{"confirm":`+tc.answer+`,"other":{"action":"accept"}}`).message())
				if got.text() != tc.want {
					t.Errorf("got %s, want %s", got.body, tc.want)
				}
			})
		}
		t.Run("unsolicited", func(t *testing.T) {
			forged := good
			forged.more = `,"inputResponses":{"confirm":{"action":"accept","content":{"zeal":"much"}}}`
			if got := send(forged.message()); got.text() != "asks" {
				t.Errorf("got %s", got.body)
			}
		})
	})
}
