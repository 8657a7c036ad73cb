package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
)

const benchMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"perf","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`

func BenchmarkDecodeRequest(b *testing.B) {
	const args = `{"environment":"production","version":"v1.2.3"}`
	for name, tail := range map[string]string{
		"Call":  ``,
		"Retry": `,"inputResponses":{"confirm":{"action":"accept","content":{"approve":true}}},"requestState":"` + strings.Repeat("a1-_", 150) + `"`,
	} {
		raw := []byte(`{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":{"name":"deploy","arguments":` + args + `,"_meta":` + benchMeta + tail + `}}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				m, err := protocol.DecodeMessage(raw)
				noError(b, err)
				if _, err := protocol.DecodeParams(m.(*protocol.Request).Method,
					m.(*protocol.Request).Params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeResult(b *testing.B) {
	for name, r := range map[string]protocol.Result{
		"Text": &protocol.CallToolResult{Content: []protocol.Content{
			&protocol.TextContent{Text: "deployed v1.2.3 to production"}}},
		"InputRequired": &protocol.InputRequiredResult{
			InputRequests: protocol.InputRequests{{Key: "confirm", Request: &protocol.ElicitForm{
				Message: "Deploy v1.2.3 to production?",
				Schema:  json.RawMessage(`{"type":"object","properties":{"approve":{"type":"boolean","title":"Approve"}},"required":["approve"]}`),
			}}},
			RequestState: protocol.StateText(strings.Repeat("a1-_", 150)),
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := protocol.EncodeResult(protocol.Latest, protocol.MethodCallTool,
					r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"Append", func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 4096)
			for b.Loop() {
				if _, err := protocol.AppendResult(buf[:0], protocol.Latest,
					protocol.MethodCallTool, r, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeResult(b *testing.B) {
	for name, raw := range map[string]string{
		"Text":          `{"resultType":"complete","content":[{"type":"text","text":"deployed v1.2.3 to production"}]}`,
		"InputRequired": `{"resultType":"input_required","inputRequests":{"confirm":{"method":"elicitation/create","params":{"mode":"form","message":"Deploy?","requestedSchema":{"type":"object","properties":{"approve":{"type":"boolean"}}}}}},"requestState":"` + strings.Repeat("a1-_", 150) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			data := []byte(raw)
			for b.Loop() {
				if _, err := protocol.DecodeResult(protocol.Latest, protocol.MethodCallTool,
					data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
