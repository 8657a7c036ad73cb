package schema

import (
	"bytes"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// DropNulls returns checked JSON without null members that can only mean absence: optional
// properties whose schema refuses null, in the document and in objects reached through properties
// alone. Elsewhere the applicable schema is uncertain. Without such members it returns doc itself.
func (s *Schema) DropNulls(doc []byte) []byte {
	if !bytes.Contains(doc, []byte("null")) {
		return doc
	}
	w := s.newWalker(s.maxSteps)
	w.quiet = 1
	if kept, dropped := w.appendKept(nil, s.root, doc); dropped {
		return kept
	}
	return doc
}

func (w *walker) appendKept(
	dst []byte, s *jsonschema.Schema, raw []byte,
) (kept []byte, dropped bool) {
	if s == nil || s.Properties == nil || s.Ref != nil && s.DraftVersion < 2019 ||
		jsonx.KindOf(raw) != jsonx.Object {
		return append(dst, raw...), false
	}
	dst = append(dst, '{')
	first := len(dst)
	_ = jsonx.Members(raw, func(name, value []byte) error {
		property := s.Properties[string(name)]
		if jsonx.KindOf(value) == jsonx.Null && property != nil &&
			!slices.Contains(s.Required, string(name)) &&
			w.evaluate(property, nil, false) != nil && w.left >= 0 {
			dropped = true
			return nil
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		below := false
		dst, below = w.appendKept(append(jsonx.AppendTextBytes(dst, name), ':'), property, value)
		dropped = dropped || below
		return nil
	})
	return append(dst, '}'), dropped
}
