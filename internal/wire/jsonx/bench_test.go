package jsonx_test

import (
	stdjson "encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const call = `{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, world"},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`

func documents() map[string][]byte {
	var items strings.Builder
	for i := 0; items.Len() < 64<<10; i++ {
		fmt.Fprintf(&items, `{"id":%d,"name":"item %d","price":%d.5,"tags":["red","blue"],"active":true},`, i, i, i)
	}
	envelope := func(arguments string) []byte {
		return []byte(strings.Replace(call, `{"text":"hello, world"}`, arguments, 1))
	}
	return map[string][]byte{
		"call":          []byte(call),
		"string-64KiB":  envelope(`{"text":"` + strings.Repeat("the quick brown fox jumps over the lazy dog ", 64<<10/44) + `"}`),
		"objects-64KiB": envelope(`{"items":[` + strings.TrimSuffix(items.String(), ",") + `]}`),
	}
}

// BenchmarkDocuments measures each pass over a document.
func BenchmarkDocuments(b *testing.B) {
	type args struct {
		Params struct {
			Arguments struct {
				Text  string `json:"text"`
				Items []struct {
					ID     int      `json:"id"`
					Name   string   `json:"name"`
					Price  float64  `json:"price"`
					Tags   []string `json:"tags"`
					Active bool     `json:"active"`
				} `json:"items"`
			} `json:"arguments"`
		} `json:"params"`
	}
	dst := make([]byte, 0, 128<<10)
	for name, doc := range documents() {
		for what, f := range map[string]func(doc []byte) error{
			"check":     jsonx.Check,
			"unmarshal": func(doc []byte) error { return jsonx.Unmarshal(doc, new(args)) },
			"stdlib":    func(doc []byte) error { return stdjson.Unmarshal(doc, new(args)) },
			"members": func(doc []byte) error {
				return jsonx.Members(doc, func(_, _ []byte) error { return nil })
			},
			"canonical": func(doc []byte) error {
				_, err := jsonx.AppendCanonical(dst, doc)
				return err
			},
		} {
			b.Run("doc="+name+"/by="+what, func(b *testing.B) {
				b.SetBytes(int64(len(doc)))
				b.ReportAllocs()
				for b.Loop() {
					noError(b, f(doc))
				}
			})
		}
	}
}

func BenchmarkAppendText(b *testing.B) {
	text, dst := strings.Repeat("hello, world \u00e9\n", 64), make([]byte, 0, 4096)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = jsonx.AppendText(dst[:0], text)
	}
}
