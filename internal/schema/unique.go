package schema

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// uniqueItems replaces the compiler's own check, whose hash does not separate neighbouring values: items made to collide
// (["a", "b"] and ["a\u0004b"]) take quadratic time there. This one compares whole encodings.
type uniqueItems struct{}

// Validate implements jsonschema.SchemaExt.
func (uniqueItems) Validate(ctx *jsonschema.ValidatorContext, v any) {
	items, ok := v.([]any)
	if !ok {
		return
	}
	seen := make(map[string]int, len(items))
	var key []byte
	for i, item := range items {
		key = appendKey(key[:0], item)
		if j, dup := seen[string(key)]; dup {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{j, i}})
			return
		}
		seen[string(key)] = i
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
