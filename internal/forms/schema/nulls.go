package schema

import (
	"bytes"
	"slices"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// DropNulls returns doc, which has passed jsonx.Check, without the members that are null and can
// only mean that they are absent: those of a property that is not required and whose schema refuses
// null, in the document and in objects to which nothing but properties leads. Elsewhere it is not
// sure which schema a member is meant for. Without such members it returns doc itself.
func (s *Schema) DropNulls(doc []byte) []byte {
	if !bytes.Contains(doc, []byte("null")) {
		return doc
	}
	e := evaluator{left: s.maxSteps, quiet: 1}
	if kept, dropped := e.appendKept(nil, s.root, doc); dropped {
		return kept
	}
	return doc
}

func (e *evaluator) appendKept(dst []byte, n *node, raw []byte) (kept []byte, dropped bool) {
	if n == nil || n.properties == nil || n.refAlone || jsonx.KindOf(raw) != jsonx.Object {
		return append(dst, raw...), false
	}
	dst = append(dst, '{')
	first := len(dst)
	_ = jsonx.Members(raw, func(name, value []byte) error {
		property := n.properties[string(name)]
		if jsonx.KindOf(value) == jsonx.Null && property != nil &&
			!slices.Contains(n.keywords.Required, string(name)) &&
			e.evaluateValue(property, nil, nil) != nil && e.left >= 0 {
			dropped = true
			return nil
		}
		if len(dst) > first {
			dst = append(dst, ',')
		}
		below := false
		dst, below = e.appendKept(append(jsonx.AppendTextBytes(dst, name), ':'), property, value)
		dropped = dropped || below
		return nil
	})
	return append(dst, '}'), dropped
}
