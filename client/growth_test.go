package client_test

import (
	"encoding/json"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestResultGrowth: without a transport, the cost of a result is proportional to its length.
func TestResultGrowth(t *testing.T) {
	in := func(name, head, part, tail string) testkit.GrowthInput {
		return testkit.GrowthInput{Name: name, Make: testkit.Repeat(head, part, tail)}
	}
	const (
		complete = `{"resultType":"complete","content":[`
		text     = `{"type":"text","text":"x"}`
	)
	inputs := []testkit.GrowthInput{
		in("blocks", complete, text+`,`, text+`]}`),
		in("text", complete+`{"type":"text","text":"`, `x`, `"}]}`),
		in("structured", complete+text+`],"structuredContent":{"a":[`, `{"b":1},`, `1]}}`),
		in("meta", complete+text+`],"_meta":{"a":[`, `{"b":1},`, `1]}}`),
		in("unknown members", complete+text+`],"x":[`, `{"b":1},`, `1]}`),
	}
	refused := []testkit.GrowthInput{
		in("no blocks", complete, `1,`, `1]}`),
		in("no JSON", complete, text+`,`, `]}`),
		in("unknown type", `{"resultType":"`, `x`, `"}`),
		in("questions", `{"resultType":"input_required","requestState":"s","inputRequests":{`,
			`"k":`+nameForm+`,`, `"l":`+nameForm+`}}`), // one key, many times
		in("no questions", `{"resultType":"input_required","requestState":"s","inputRequests":[`,
			`1,`, `1]}`),
	}
	for i := range refused {
		refused[i].Refused = true
	}
	var result json.RawMessage
	peer := answering(func(req *protocol.Request) (response, error) {
		return &protocol.Response{ID: req.ID, Result: result}, nil
	})
	c := newClient(t, peer, &client.Options{Era: protocol.Modern, ElicitForm: acceptName})
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			result, peer.seen = input, nil
			_, err := c.CallTool(t.Context(), "t", nil)
			return err == nil
		},
		BytesPerByte: 12, ObjectsPerByte: 0.2,
	}, append(inputs, refused...)...)
}
