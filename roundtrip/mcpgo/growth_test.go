package mcpgo_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/growthtest"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// TestGrowth: what a message costs before mcp-go reads it, whether it passes, is
// cleaned or is refused. What names no modern revision and is no JSON is left to
// mcp-go to refuse.
func TestGrowth(t *testing.T) {
	const head = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t",`
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	for _, header := range []string{"", modern} {
		growthtest.Test(t, growthtest.Reader{
			Read: func(input []byte) bool {
				_, _, refused := mcpgo.CleanMessage(input, header)
				return refused == nil
			},
			BytesPerByte: 12, ObjectsPerByte: 0.2,
		},
			growthtest.Input{Name: "arguments",
				Make: growthtest.Repeat(head+meta+`,"arguments":{"a":[`, `1,`, `1]}}}`)},
			growthtest.Input{Name: "unknown members",
				Make: growthtest.Repeat(head+meta+`,"x":[`, `{"x":1},`, `1]}}`)},
			growthtest.Input{Name: "another case",
				Make: growthtest.Repeat(head+meta+`,"Arguments":{"a":[`, `1,`, `1]}}}`)},
			growthtest.Input{Name: "answers", Make: growthtest.Repeat(head+meta+`,"inputResponses":{"q":{"action":"accept","content":{"a":"`, `x`, `"}}}}}`)},
			growthtest.Input{Name: "long state",
				Make: growthtest.Repeat(head+meta+`,"requestState":"`, `x`, `"}}`)},
			growthtest.Input{Name: "state twice",
				Make: growthtest.Repeat(head+meta+`,"requestState":"a","requestState":"`, `x`,
					`"}}`), Refused: true},
			growthtest.Input{Name: "no JSON",
				Make: growthtest.Repeat(head+meta+`,"x":[`, `1,`, `}`), Refused: header != ""},
		)
	}
}
