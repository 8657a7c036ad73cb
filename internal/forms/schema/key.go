package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A valueSet holds the values of an enumeration or a constant, with lookup in constant time.
type valueSet struct {
	texts  map[string]bool  // the strings
	others map[string]bool  // see appendKey
	kinds  jsonschema.Types // of others
}

// valueSets are the sets of a schema, by *jsonschema.Enum and, for constants, by *any.
type valueSets map[any]*valueSet

func newValueSet(values []any) *valueSet {
	s := &valueSet{texts: make(map[string]bool, len(values)), others: map[string]bool{}}
	free := walker{left: math.MaxInt64}
	for _, v := range values {
		if text, ok := v.(string); ok {
			s.texts[text] = true
		} else {
			s.others[string(free.appendKey(nil, v))] = true
			s.kinds.Add(kindOf(v).String())
		}
	}
	return s
}

func (w *walker) isAmong(s *valueSet, v any) bool {
	if text, ok := v.(string); ok {
		w.left -= int64(len(text) / 64)
		return s.texts[text]
	}
	if !hasKind(&s.kinds, kindOf(v)) {
		return false
	}
	w.key = w.appendKey(w.key[:0], v)
	return s.others[string(w.key)]
}

// hasDuplicate reports whether two items are equal. It compares whole keys: with a hash that does
// not separate values, items such as ["a", "b"] and ["a\u0004b"] could collide in quadratic time.
func (w *walker) hasDuplicate(items []any) bool {
	seen := map[string]struct{}{}
	w.left -= 6 * int64(len(items))
	for _, item := range items {
		w.key = w.appendKey(w.key[:0], item)
		if _, dup := seen[string(w.key)]; dup || w.left < 0 {
			return true
		}
		seen[string(w.key)] = struct{}{}
	}
	return false
}

// appendKey appends an encoding of v that is equal only for equal values: numbers by value, members
// sorted, with lengths. It costs steps, and stops when the budget is used up.
func (w *walker) appendKey(b []byte, v any) []byte {
	if w.left -= 3; w.left < 0 {
		return b
	}
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		w.left -= int64(len(v) / 64)
		b = strconv.AppendInt(append(b, 's'), int64(len(v)), 10)
		return append(append(b, ':'), v...)
	case json.Number:
		w.left -= int64(len(v) / 64)
		return append(appendNumber(append(b, '#'), v), ';')
	case []any:
		b = strconv.AppendInt(append(b, '['), int64(len(v)), 10)
		for _, item := range v {
			b = w.appendKey(b, item)
		}
	case map[string]any:
		b = strconv.AppendInt(append(b, '{'), int64(len(v)), 10)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = w.appendKey(w.appendKey(b, name), v[name])
		}
	}
	return b
}

func appendNumber(b []byte, text json.Number) []byte {
	if n, ok := smallInt(text); ok {
		return strconv.AppendInt(b, n, 10)
	}
	b, _ = jsonx.AppendNumber(b, []byte(text)) // decoders return valid numbers
	return b
}

func (w *walker) isInteger(text json.Number) bool {
	if _, ok := smallInt(text); ok {
		return true
	}
	w.left -= 1 + int64(len(text)/64)
	if w.bounded {
		_, ok := jsonx.PlainInteger([]byte(text))
		return ok
	}
	w.key = appendNumber(w.key[:0], text)
	return !bytes.Contains(w.key, []byte("e-"))
}
