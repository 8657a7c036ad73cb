package schema

import (
	"cmp"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

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

// bound is one of the rules that compare a number.
type bound struct {
	rule  rule
	value *big.Rat
	small int64 // the value, where whole is set
	whole bool
	steps int64 // of comparing with it
}

func (n *node) addBound(r rule, value *big.Rat) {
	if value == nil {
		return
	}
	b := bound{
		rule:  r,
		value: value,
		steps: arithmetic + int64(value.Num().BitLen()+value.Denom().BitLen())/bitsPerStep,
	}
	if value.IsInt() && value.Num().IsInt64() {
		b.small, b.whole = value.Num().Int64(), true
	}
	n.bounds = append(n.bounds, b)
}

func (e *evaluator) checkNumber(n *node, text json.Number) (first *fault) {
	if len(n.bounds) == 0 {
		return nil
	}
	small, isSmall := smallInt(text)
	var exact *big.Rat
	for i := range n.bounds {
		b := &n.bounds[i]
		if isSmall && b.whole {
			if b.refusesSmall(small) {
				first = firstOf(first, e.newFault(n, b.rule))
			}
			continue
		}
		if e.left -= b.steps + arithmeticSteps(text); e.isSettled(first) {
			return e.anyFault()
		}
		if exact == nil {
			var ok bool
			if exact, ok = new(big.Rat).SetString(string(text)); !ok {
				e.broken = true
				return e.anyFault()
			}
		}
		if b.refusesExact(exact) {
			first = firstOf(first, e.newFault(n, b.rule))
		}
	}
	return first
}

func (b *bound) refusesSmall(n int64) bool {
	if b.rule == ruleMultipleOf {
		return n%b.small != 0 // a schema with 0 does not compile
	}
	return breaks(b.rule, cmp.Compare(n, b.small))
}

func (b *bound) refusesExact(n *big.Rat) bool {
	if b.rule == ruleMultipleOf {
		return !new(big.Rat).Quo(n, b.value).IsInt()
	}
	return breaks(b.rule, n.Cmp(b.value))
}

// breaks reports whether a number that compares with a bound as order says breaks the rule.
func breaks(r rule, order int) bool {
	switch r {
	case ruleMinimum:
		return order < 0
	case ruleMaximum:
		return order > 0
	case ruleExclusiveMinimum:
		return order <= 0
	case ruleExclusiveMaximum:
		return order >= 0
	}
	return false
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

// kindName is what errors call a kind.
func kindName(k jsonx.Kind) string {
	switch k {
	case jsonx.Null:
		return "null"
	case jsonx.Bool:
		return "boolean"
	case jsonx.String:
		return "string"
	case jsonx.Number:
		return "number"
	case jsonx.Array:
		return "array"
	}
	return "object"
}
