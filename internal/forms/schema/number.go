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

// arithmetic is how many steps exact arithmetic on one number of ordinary length takes.
const arithmetic = 8

// bitsPerStep is how many bits of a number cost one further step: eight digits.
const bitsPerStep = 27

// arithmeticSteps is how many steps beyond arithmetic the number text takes. An exponent counts as
// many digits as it adds.
func arithmeticSteps(text json.Number) int64 {
	digits := len(text)
	if i := strings.IndexAny(string(text), "eE"); i >= 0 {
		exponent, err := strconv.Atoi(string(text[i+1:]))
		if err != nil {
			exponent = maxExponent
		}
		digits += max(exponent, -exponent)
	}
	return int64(digits / 8)
}

// maxSmall is how many digits a number has at most that is sure to fit an int64.
const maxSmall = 18

// smallInt returns text as an integer if it has neither fraction nor exponent and is small, as
// nearly all numbers are. Others need exact arithmetic, which allocates.
func smallInt(text json.Number) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > maxSmall {
		return 0, false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// checkNumber applies the bounds of a number, of which each is paid for.
func (w *walker) checkNumber(s *jsonschema.Schema, text json.Number) *fault {
	if s.MultipleOf == nil && s.Minimum == nil && s.Maximum == nil &&
		s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil {
		return nil
	}
	small, isSmall := smallInt(text)
	var exact *big.Rat
	for _, rule := range [...]struct {
		keyword string
		value   *big.Rat
	}{
		{"multipleOf", s.MultipleOf}, {"minimum", s.Minimum}, {"maximum", s.Maximum},
		{"exclusiveMaximum", s.ExclusiveMaximum}, {"exclusiveMinimum", s.ExclusiveMinimum},
	} {
		if rule.value == nil {
			continue
		}
		order, ok := 0, false
		if isSmall && rule.keyword != "multipleOf" {
			order, ok = compareSmall(small, rule.value)
		}
		if !ok {
			bits := int64(rule.value.Num().BitLen() + rule.value.Denom().BitLen())
			if w.left -= arithmetic + bits/bitsPerStep + arithmeticSteps(text); w.left < 0 {
				return anyFault
			}
			if exact == nil {
				exact, _ = new(big.Rat).SetString(string(text)) // a decoder returns numbers only
			}
			order = exact.Cmp(rule.value)
		}
		broken := false
		switch rule.keyword {
		case "multipleOf":
			broken = !new(big.Rat).Quo(exact, rule.value).IsInt()
		case "minimum":
			broken = order < 0
		case "maximum":
			broken = order > 0
		case "exclusiveMinimum":
			broken = order <= 0
		case "exclusiveMaximum":
			broken = order >= 0
		}
		if broken {
			return w.refuse(s, rule.keyword, "")
		}
	}
	return nil
}

// compareSmall compares a number with a bound, if that is a small integer as well.
func compareSmall(n int64, bound *big.Rat) (order int, ok bool) {
	if !bound.IsInt() || !bound.Num().IsInt64() {
		return 0, false
	}
	return cmp.Compare(n, bound.Num().Int64()), true
}

// kindOf returns the kind of a decoded value.
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

// The bits of the types that numbers can have.
var numberType, integerType = newTypes("number"), newTypes("integer")

var kindTypes = [128]jsonschema.Types{
	jsonx.Null: newTypes("null"), jsonx.Bool: newTypes("boolean"), jsonx.Number: numberType,
	jsonx.String: newTypes("string"), jsonx.Array: newTypes("array"),
	jsonx.Object: newTypes("object"),
}

func newTypes(name string) (types jsonschema.Types) {
	types.Add(name)
	return types
}

// typeOf returns the type that all values of a kind have.
func typeOf(k jsonx.Kind) jsonschema.Types { return kindTypes[k&127] }
