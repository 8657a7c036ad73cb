package gosdk_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/growthtest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/gosdk"
)

// TestGrowth: what the parameters of a request cost before the SDK reads them,
// whether they are taken or refused.
func TestGrowth(t *testing.T) {
	growthtest.Test(t, growthtest.Reader{
		Read: func(input []byte) bool {
			_, _, refused := gosdk.ExtractRetry(protocol.MethodCallTool, input)
			return refused == nil
		},
		BytesPerByte: 12, ObjectsPerByte: 0.2,
	},
		growthtest.Input{Name: "arguments", Make: growthtest.Repeat(`{"name":"t","requestState":"s","arguments":{"a":[`, `1,`, `1]}}`)},
		growthtest.Input{Name: "meta", Make: growthtest.Repeat(`{"name":"t","requestState":"s","_meta":{"a":[`, `{"x":1},`, `1]}}`)},
		growthtest.Input{Name: "answer", Make: growthtest.Repeat(`{"name":"t","inputResponses":{"q":{"action":"accept","content":{"a":"`, `x`, `"}}}}`)},
		growthtest.Input{Name: "long state",
			Make: growthtest.Repeat(`{"name":"t","requestState":"`, `x`, `"}`)},
		growthtest.Input{Name: "no object",
			Make: growthtest.Repeat(`{"name":"t","inputResponses":[`, `1,`, `1]}`), Refused: true},
		growthtest.Input{Name: "no JSON",
			Make: growthtest.Repeat(`{"name":"t","requestState":[`, `1,`, `}`), Refused: true},
	)
}
