package schema

import (
	"cmp"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const arithmetic = 8 // steps for exact arithmetic on a number of ordinary length

const (
	bitsPerStep  = 27
	bitsPerDigit = 4 // rounded up
)

const maxSmall = 18 // bytes that always fit an int64

// A number is a JSON number from a document. Most are small integers; others need big arithmetic.
type number struct {
	text    json.Number
	isSmall bool
	small   int64
}

// smallInt returns the value of text if it spells a small integer without fraction and exponent.
func smallInt(text json.Number) (n int64, ok bool) {
	if len(text) > maxSmall || strings.ContainsAny(string(text), ".eE") {
		return 0, false
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// checkNumber applies the bounds of a number; each comparison costs steps.
func (w *walker) checkNumber(s *jsonschema.Schema, n number) *fault {
	switch {
	case s.MultipleOf != nil && !w.isMultiple(n, s.MultipleOf):
		return w.refuse(s, "multipleOf", "")
	case s.Minimum != nil && w.compare(n, s.Minimum) < 0:
		return w.refuse(s, "minimum", "")
	case s.Maximum != nil && w.compare(n, s.Maximum) > 0:
		return w.refuse(s, "maximum", "")
	case s.ExclusiveMaximum != nil && w.compare(n, s.ExclusiveMaximum) >= 0:
		return w.refuse(s, "exclusiveMaximum", "")
	case s.ExclusiveMinimum != nil && w.compare(n, s.ExclusiveMinimum) <= 0:
		return w.refuse(s, "exclusiveMinimum", "")
	}
	return nil
}

func (w *walker) isMultiple(n number, of *big.Rat) bool {
	exact := w.exact(n, of)
	return exact != nil && exact.Quo(exact, of).IsInt()
}

// compare returns 0 when the budget is used up.
func (w *walker) compare(n number, bound *big.Rat) int {
	if n.isSmall && bound.IsInt() && bound.Num().IsInt64() {
		return cmp.Compare(n.small, bound.Num().Int64())
	}
	if exact := w.exact(n, bound); exact != nil {
		return exact.Cmp(bound)
	}
	return 0
}

// The method exact returns n for arithmetic with other, nil when the budget is used up.
func (w *walker) exact(n number, other *big.Rat) *big.Rat {
	size := other.Num().BitLen() + other.Denom().BitLen() + bitsPerDigit*len(n.text)
	if strings.ContainsAny(string(n.text), "eE") {
		size += bitsPerDigit * maxExponent
	}
	if w.left -= arithmetic + int64(size/bitsPerStep); w.left < 0 {
		return nil
	}
	if n.isSmall {
		return new(big.Rat).SetInt64(n.small)
	}
	exact, ok := new(big.Rat).SetString(string(n.text))
	if !ok { // has not passed CheckNumber: refused as too expensive
		w.left = -1
	}
	return exact
}

func kindOf(v any) jsonx.Kind {
	switch v.(type) {
	case nil:
		return jsonx.Null
	case bool:
		return jsonx.Bool
	case string:
		return jsonx.String
	case json.Number:
		return jsonx.Number
	case []any:
		return jsonx.Array
	}
	return jsonx.Object
}

var integerType = newTypes("integer")

// kindTypes are the types of all values of a kind.
var kindTypes = [128]jsonschema.Types{
	jsonx.Null: newTypes("null"), jsonx.Bool: newTypes("boolean"),
	jsonx.Number: newTypes("number"), jsonx.String: newTypes("string"),
	jsonx.Array: newTypes("array"), jsonx.Object: newTypes("object"),
}

func newTypes(name string) (types jsonschema.Types) {
	types.Add(name)
	return types
}

// hasKind reports whether types, nil for any, include all values of a kind.
func hasKind(types *jsonschema.Types, kind jsonx.Kind) bool {
	return types == nil || *types&kindTypes[kind&127] != 0
}
