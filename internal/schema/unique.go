package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
)

// hasDuplicate reports whether two items are equal. It compares whole encodings: with a hash that does not separate neighbouring
// values, items made to collide (["a", "b"] and ["a\u0004b"]) would take quadratic time.
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

// payEncoding charges for what [hasDuplicate] does with v.
func (e *evaluator) payEncoding(v any) {
	e.left -= 2
	if e.left < 0 {
		return
	}
	switch v := v.(type) {
	case string:
		e.left -= int64(len(v) / 64)
	case json.Number:
		e.left -= arithmeticSteps(v)
	case []any:
		for _, item := range v {
			e.payEncoding(item)
		}
	case map[string]any:
		for name, value := range v {
			e.left -= int64(len(name) / 64)
			e.payEncoding(value)
		}
	}
}

// appendKey appends an encoding of v that is the same for equal values and no others: numbers by value,
// members sorted, everything of variable length counted.
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
		if n, ok := smallInt(v); ok {
			return append(strconv.AppendInt(append(b, '#'), n, 10), ';')
		}
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			return append(append(append(b, '#'), r.RatString()...), ';')
		}
		return append(append(append(b, '?'), v...), ';')
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
