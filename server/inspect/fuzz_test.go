package inspect_test

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/server/inspect"
)

// For any schema and input the content fits the schema, or there is an error.
func FuzzForm(f *testing.F) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"string","default":"x"},"b":{"type":"integer"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["1"]}}}}`,
		`{"type":"object","properties":{"a":{"type":"string","oneOf":[{"const":"1","title":"t"}]}}}`,
		`{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"type":"object"}}}`, `{}`, `[`,
	} {
		f.Add([]byte(schema), "1", "")
		f.Add([]byte(schema), "<b>", `{"a":1}`)
	}
	f.Fuzz(func(t *testing.T, schema []byte, value, raw string) {
		names, _, _ := inspect.FillForm(schema, nil)
		given := url.Values{"json": {raw}}
		for _, name := range names {
			given.Set(name, value)
		}
		_, content, err := inspect.FillForm(schema, given)
		if err != nil {
			return
		}
		if err := jsonx.Check(content); err != nil {
			t.Fatalf("%s: %q is no JSON: %v", schema, content, err)
		}
		if parsed, bad := form.ParsePeer(schema); bad == nil && raw == "" {
			if err := parsed.Check(content); err != nil {
				t.Errorf("%s: %s does not fit: %v", schema, content, err)
			}
		}
	})
}

// Pieces make the same messages as the whole, within bounds.
func FuzzWire(f *testing.F) {
	f.Add([]byte("{}\n[1,\n"), 1)
	f.Add([]byte(strings.Repeat("\xffö", 5000)+"\n\n"), 4095)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		at = min(max(at, 0), len(data))
		whole, sizes := inspect.ReadWire(data)
		pieces, again := inspect.ReadWire(data[:at], data[at:])
		if strings.Join(whole, "\n") != strings.Join(pieces, "\n") {
			t.Errorf("got %q in pieces, want %q", pieces, whole)
		}
		n := bytes.Count(data, []byte("\n"))
		if len(whole) != min(n, 64) || len(again) != len(sizes) {
			t.Errorf("%d messages of %d are kept", len(whole), n)
		}
		if lines := strings.Split(string(data), "\n"); utf8.Valid(data) && len(data) <= 4096 {
			lines = lines[max(0, n-64):n]
			if !slices.Equal(lines, whole) {
				t.Errorf("%q is kept of %q", whole, lines)
			}
		}
		for _, text := range whole {
			if len(text) > 3*4096+3 || !utf8.ValidString(text) {
				t.Errorf("a text of %d bytes", len(text))
			}
		}
	})
}
