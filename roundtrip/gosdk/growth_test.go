package gosdk_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestGrowth: what the parameters of a request cost before the SDK reads them,
// whether they are taken or refused.
func TestGrowth(t *testing.T) {
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			_, _, refused := gosdk.ExtractRetry(protocol.MethodCallTool, input)
			return refused == nil
		},
		BytesPerByte: 12, ObjectsPerByte: 0.2,
	},
		testkit.GrowthInput{Name: "arguments", Make: testkit.Repeat(`{"name":"t","requestState":"s","arguments":{"a":[`, `1,`, `1]}}`)},
		testkit.GrowthInput{Name: "meta", Make: testkit.Repeat(`{"name":"t","requestState":"s","_meta":{"a":[`, `{"x":1},`, `1]}}`)},
		testkit.GrowthInput{Name: "answer", Make: testkit.Repeat(`{"name":"t","inputResponses":{"q":{"action":"accept","content":{"a":"`, `x`, `"}}}}`)},
		testkit.GrowthInput{Name: "long state",
			Make: testkit.Repeat(`{"name":"t","requestState":"`, `x`, `"}`)},
		testkit.GrowthInput{Name: "no object",
			Make: testkit.Repeat(`{"name":"t","inputResponses":[`, `1,`, `1]}`), Refused: true},
		testkit.GrowthInput{Name: "no JSON",
			Make: testkit.Repeat(`{"name":"t","requestState":[`, `1,`, `}`), Refused: true},
	)
}
