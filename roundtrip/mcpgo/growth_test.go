package mcpgo_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestGrowth: what a message costs before mcp-go reads it, whether it passes, is
// cleaned or is refused. What names no modern revision and is no JSON is left to
// mcp-go to refuse.
func TestGrowth(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",`
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	for _, header := range []string{"", modern} {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				_, _, refused := mcpgo.CleanMessage(input, header)
				return refused == nil
			},
			BytesPerByte: 12, ObjectsPerByte: 0.2,
		},
			testkit.GrowthInput{Name: "arguments",
				Make: testkit.Repeat(head+meta+`,"arguments":{"a":[`, `1,`, `1]}}}`)},
			testkit.GrowthInput{Name: "unknown members",
				Make: testkit.Repeat(head+meta+`,"x":[`, `{"x":1},`, `1]}}`)},
			testkit.GrowthInput{Name: "another case",
				Make: testkit.Repeat(head+meta+`,"Arguments":{"a":[`, `1,`, `1]}}}`)},
			testkit.GrowthInput{Name: "answers", Make: testkit.Repeat(head+meta+`,"inputResponses":{"q":{"action":"accept","content":{"a":"`, `x`, `"}}}}}`)},
			testkit.GrowthInput{Name: "long state",
				Make: testkit.Repeat(head+meta+`,"requestState":"`, `x`, `"}}`)},
			testkit.GrowthInput{Name: "state twice",
				Make: testkit.Repeat(head+meta+`,"requestState":"a","requestState":"`, `x`,
					`"}}`), Refused: true},
			testkit.GrowthInput{Name: "no JSON",
				Make: testkit.Repeat(head+meta+`,"x":[`, `1,`, `}`), Refused: header != ""},
		)
	}
}
