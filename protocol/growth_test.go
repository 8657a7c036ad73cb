package protocol_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestMessageGrowth reads messages of all shapes, as both sides do.
func TestMessageGrowth(t *testing.T) {
	for _, message := range []struct{ name, head, tail string }{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"x":`, `}}}`},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":`, `}}`},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{"x":`, `}}`},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"m","data":`, `}}`},
		{"retry", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","inputResponses":{"k":`, `},"requestState":"s"}}`},
	} {
		t.Run(message.name, func(t *testing.T) {
			values := testkit.GrowthValues(message.head, message.tail)
			if message.name != "retry" { // answers are not repaired
				values = testkit.Repaired(values)
			}
			testkit.CheckGrowth(t, testkit.GrowthReader{
				Read: func(input []byte) bool {
					m, err := protocol.DecodeMessage(input)
					if err != nil {
						return false
					}
					if r, ok := m.(*protocol.Request); ok {
						_, err = protocol.DecodeParams(r.Method, r.Params)
					}
					return err == nil
				},
				BytesPerByte: 12, ObjectsPerByte: 0.02,
			}, values...)
		})
	}
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			_, is, err := protocol.DecodeBatch(input)
			return is && err == nil
		},
		BytesPerByte: 12, ObjectsPerByte: 0.02,
	},
		testkit.GrowthInput{Name: "batch", Make: testkit.Repeat(`[`, `{},`, `{}]`), Refused: true},
		testkit.GrowthInput{Name: "batch of one", Make: testkit.Repeat(`["`, `x`, `"]`)},
	)
}

// TestParamsGrowth reads parameters as a server does.
func TestParamsGrowth(t *testing.T) {
	const meta = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`
	for _, params := range []struct {
		name, method, head, part, tail string
		refused                        bool
	}{
		{"answers", protocol.MethodCallTool, `{"name":"t","inputResponses":{"a":[`,
			`{"action":"accept"},`, `0]}}`, false},
		{"experimental", protocol.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":{"experimental":{"a":{"b":[`, `{},`, `0]}}}}`, false},
		{"icons", protocol.MethodInitialize, `{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1","icons":[`, `{"src":"x"},`, `{"src":"y"}]}}`, false},
		{"no icons", protocol.MethodInitialize, `{"protocolVersion":"2025-11-25","clientInfo":{"name":"c","version":"1","icons":[`, `{"src":"x"},`, `1]}}`, true},
		// missing name
		{"extensions", protocol.MethodCallTool, meta + `{"extensions":{"a":{"b":[`, `{},`,
			`0]}}}}}`, true},
		{"uris", protocol.MethodListen, `{"notifications":{"resourceSubscriptions":[`, `"a",`, `"b"]}}`, false},
		{"no uris", protocol.MethodListen, `{"notifications":{"resourceSubscriptions":[`, `"a",`, `1]}}`, true},
		{"context", protocol.MethodComplete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"`, `x`, `"}}`, false},
		{"cursor", protocol.MethodListTools, `{"cursor":"`, `\u0061`, `"}`, false},
	} {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				if jsonx.Check(input) != nil {
					t.Fatalf("%s is not JSON", input[:100])
				}
				_, err := protocol.DecodeParams(params.method, input)
				return err == nil
			},
			BytesPerByte: 40, ObjectsPerByte: 0.6,
		}, testkit.GrowthInput{Name: params.name,
			Make:    testkit.Repeat(params.head, params.part, params.tail),
			Refused: params.refused})
	}
}

// TestResultGrowth reads results of a hostile server.
func TestResultGrowth(t *testing.T) {
	const form = `{"method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}}`
	for _, result := range []struct {
		name, method, head, part, tail string
		refused                        bool
	}{
		{"tools", protocol.MethodListTools, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`, `{"name":"t","inputSchema":{"type":"object"}},`, `{"name":"t","inputSchema":{"type":"object"}}]}`, false},
		{"a bad tool", protocol.MethodListTools, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`, `{"name":"t","inputSchema":{"type":"object"}},`, `1]}`, false},
		{"bad tools", protocol.MethodListTools, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`, `{"name":"t"},`, `1]}`, false},
		{"content", protocol.MethodCallTool, `{"resultType":"complete","content":[`,
			`{"type":"text","text":"x"},`, `{"type":"text","text":"y"}]}`, false},
		{"a bad block", protocol.MethodCallTool, `{"resultType":"complete","content":[`,
			`{"type":"text","text":"x"},`, `{"type":"image","data":1}]}`, false},
		{"structured content", protocol.MethodCallTool, `{"resultType":"complete","content":[],"structuredContent":{"a":[`, `1,`, `1]}}`, false},
		{"long state", protocol.MethodCallTool, `{"resultType":"input_required","requestState":"`, `x`, `"}`, false},
		{"a large form", protocol.MethodCallTool, `{"resultType":"input_required","inputRequests":{"a":` + form + `},"_meta":{"x":[`, `1,`, `1]}}`, false},
		{"contents", protocol.MethodReadResource, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[`, `{"uri":"a:b","text":""},`, `{"uri":"a:b","text":""}]}`, false},
		{"values", protocol.MethodComplete, `{"resultType":"complete","completion":{"values":[`, `"a",`, `"b"]}}`, false},
	} {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				if jsonx.Check(input) != nil {
					t.Fatalf("%s is not JSON", input[:100])
				}
				_, err := protocol.DecodeResult(protocol.V20260728, result.method, input)
				return err == nil
			},
			BytesPerByte: 30, ObjectsPerByte: 0.5,
		}, testkit.GrowthInput{Name: result.name,
			Make:    testkit.Repeat(result.head, result.part, result.tail),
			Refused: result.refused})
	}
}
