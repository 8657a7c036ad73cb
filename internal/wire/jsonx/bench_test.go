package jsonx_test

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const call = `{"jsonrpc":"2.0","id":1000000000,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello, world"},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`

// documents returns the bodies that the benchmarks and allocation tests use.
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

var names = []string{"call", "string-64KiB", "objects-64KiB"}

// run benchmarks f on each document.
func run(b *testing.B, what string, f func(doc []byte) error) {
	docs := documents()
	for _, name := range names {
		doc := docs[name]
		b.Run("doc="+name+"/by="+what, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if err := f(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func tokens(doc []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(doc))
	for {
		if _, err := d.ReadToken(); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// BenchmarkCheck compares validation alone. The encoding/json entry neither sees duplicates nor
// invalid UTF-8; the others refuse both.
func BenchmarkCheck(b *testing.B) {
	run(b, "jsonx", jsonx.Check)
	run(b, "encoding-json", func(doc []byte) error {
		if !stdjson.Valid(doc) {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	run(b, "jsontext-value", func(doc []byte) error {
		if !jsontext.Value(doc).IsValid() {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	run(b, "jsontext-tokens", tokens)
}

type envelope struct {
	JSONRPC string             `json:"jsonrpc"`
	ID      stdjson.RawMessage `json:"id"`
	Method  string             `json:"method"`
	Params  struct {
		Name      string             `json:"name"`
		Arguments stdjson.RawMessage `json:"arguments"`
		Meta      stdjson.RawMessage `json:"_meta"`
	} `json:"params"`
}

// scan reads the same fields as envelope by walking, after the check.
func scan(doc []byte, e *envelope) error {
	if err := jsonx.Check(doc); err != nil {
		return err
	}
	return jsonx.Members(doc, func(key, value []byte) (err error) {
		switch string(key) {
		case "jsonrpc":
			e.JSONRPC, err = jsonx.Text(value)
		case "id":
			e.ID = value
		case "method":
			e.Method, err = jsonx.Text(value)
		case "params":
			return jsonx.Members(value, func(key, value []byte) (err error) {
				switch string(key) {
				case "name":
					e.Params.Name, err = jsonx.Text(value)
				case "arguments":
					e.Params.Arguments = value
				case "_meta":
					e.Params.Meta = value
				}
				return err
			})
		}
		return err
	})
}

// BenchmarkEnvelope compares reading a tools/call, arguments and _meta raw. The strict-pre-scan
// entry is encoding/json behind Check, which would still fold the case of names.
func BenchmarkEnvelope(b *testing.B) {
	run(b, "jsonx", func(doc []byte) error { var e envelope; return scan(doc, &e) })
	run(b, "encoding-json", func(doc []byte) error {
		var e envelope
		return stdjson.Unmarshal(doc,
			&e)
	})
	run(b, "strict-pre-scan", func(doc []byte) error {
		if err := jsonx.Check(doc); err != nil {
			return err
		}
		var e envelope
		return stdjson.Unmarshal(doc, &e)
	})
	run(b, "json-experiment", func(doc []byte) error {
		var e envelope
		return json.Unmarshal(doc,
			&e)
	})
}

// BenchmarkAuthor compares decoding into an author's type.
func BenchmarkAuthor(b *testing.B) {
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
	run(b, "jsonx", func(doc []byte) error { var a args; return jsonx.Unmarshal(doc, &a) })
	run(b, "encoding-json", func(doc []byte) error {
		var a args
		return stdjson.Unmarshal(doc,
			&a)
	})
}

// BenchmarkMembers walks the envelope only.
func BenchmarkMembers(b *testing.B) {
	run(b, "jsonx", func(doc []byte) error {
		return jsonx.Members(doc, func(_, _ []byte) error { return nil })
	})
}

func BenchmarkAppendCanonical(b *testing.B) {
	dst := make([]byte, 0, 128<<10)
	run(b, "jsonx", func(doc []byte) error {
		_, err := jsonx.AppendCanonical(dst, doc)
		return err
	})
	run(b, "jsontext", func(doc []byte) error {
		v := jsontext.Value(append(dst, doc...))
		return v.Canonicalize()
	})
}

func BenchmarkAppendText(b *testing.B) {
	text, dst := strings.Repeat("hello, world \u00e9\n", 64), make([]byte, 0, 4096)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = jsonx.AppendText(dst[:0], text)
	}
}
