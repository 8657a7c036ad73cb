package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A valueSet is the values of an enumeration. Whether one is among them takes as long as encoding
// it, however many there are.
type valueSet struct {
	kinds kinds
	keys  map[string]struct{} // see appendKey
}

func newValueSet(values []any) *valueSet {
	s := &valueSet{keys: make(map[string]struct{}, len(values))}
	for _, v := range values {
		s.kinds |= setOf(kindOf(v))
		s.keys[string(appendKey(nil, v))] = struct{}{}
	}
	return s
}

// isAmong reports whether v is one of the values.
func (e *evaluator) isAmong(s *valueSet, v any) bool {
	if s.kinds&setOf(kindOf(v)) == 0 {
		return false
	}
	if e.payKey(v); e.left < 0 {
		return false
	}
	e.key = appendKey(e.key[:0], v)
	_, ok := s.keys[string(e.key)]
	return ok
}

// hasDuplicate reports whether two items are equal. It compares whole keys: with a hash that does
// not separate neighbouring values, items made to collide (["a", "b"] and ["a\u0004b"]) would take
// quadratic time.
func hasDuplicate(items []any) bool {
	seen := make(map[string]struct{}, len(items))
	var key []byte
	for _, item := range items {
		key = appendKey(key[:0], item)
		if _, dup := seen[string(key)]; dup {
			return true
		}
		seen[string(key)] = struct{}{}
	}
	return false
}

// payKey charges for the key of v.
func (e *evaluator) payKey(v any) {
	e.left -= 2
	if e.left < 0 {
		return
	}
	switch v := v.(type) {
	case string:
		e.left -= int64(len(v) / 64)
	case json.Number:
		e.left -= int64(len(v) / 64)
	case []any:
		for _, item := range v {
			e.payKey(item)
		}
	case map[string]any:
		for name, value := range v {
			e.left -= int64(len(name) / 64)
			e.payKey(value)
		}
	}
}

// appendKey appends an encoding of v that is the same for equal values and no others: numbers by
// value, members sorted, everything of variable length counted.
func appendKey(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case bool:
		return strconv.AppendBool(b, v)
	case string:
		b = strconv.AppendInt(append(b, 's'), int64(len(v)), 10)
		return append(append(b, ':'), v...)
	case json.Number:
		return append(appendNumber(append(b, '#'), v), ';')
	case []any:
		b = strconv.AppendInt(append(b, '['), int64(len(v)), 10)
		for _, item := range v {
			b = appendKey(b, item)
		}
	case map[string]any:
		b = strconv.AppendInt(append(b, '{'), int64(len(v)), 10)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendKey(appendKey(b, name), v[name])
		}
	}
	return b
}

// appendNumber appends the spelling that all spellings of a value have in common.
func appendNumber(b []byte, text json.Number) []byte {
	if n, ok := smallInt(text); ok {
		return strconv.AppendInt(b, n, 10)
	}
	b, err := jsonx.AppendNumber(b, []byte(text))
	if err != nil { // no JSON, which no decoder returns
		return append(append(b, '?'), text...)
	}
	return b
}

// isInteger reports whether a number has no fraction, however it is spelled.
func (e *evaluator) isInteger(text json.Number) bool {
	if _, ok := smallInt(text); ok {
		return true
	}
	e.left -= 1 + int64(len(text)/64)
	if e.bounded {
		_, ok := jsonx.PlainInteger([]byte(text))
		return ok
	}
	key, err := jsonx.AppendNumber(e.key[:0], []byte(text))
	e.key = key
	return err == nil && !bytes.Contains(key, []byte("e-"))
}
