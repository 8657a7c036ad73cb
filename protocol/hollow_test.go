package protocol_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

// An object that says nothing at all was read as the success of a tool.
func TestHollowToolResult(t *testing.T) {
	for _, test := range []struct {
		data string
		ok   bool
	}{
		{`{}`, false},
		{`{"resultType":"complete"}`, false},
		{`{"resultType":"complete","_meta":{}}`, false},
		{`{"content":[]}`, true},
		{`{"content":null}`, true}, // how servers in use spell an empty list
		{`{"structuredContent":{"a":1}}`, true},
	} {
		_, err := protocol.DecodeResult(protocol.V20260728, protocol.MethodCallTool, []byte(test.data))
		if (err == nil) != test.ok {
			t.Errorf("%s: got %v, want ok %t", test.data, err, test.ok)
		}
	}
}
