package fields

import (
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A Number is an exact number in JSON notation, checked by [ParseNumber] or [schema.CheckNumber].
type Number string

// ParseNumber reads a number in JSON notation. It refuses numbers that are expensive to compute.
func ParseNumber(s string) (Number, error) {
	if jsonx.KindOf([]byte(s)) != jsonx.Number || jsonx.Check([]byte(s)) != nil ||
		strings.TrimSpace(s) != s {
		return "", errors.New("not a number")
	}
	return Number(s), schema.CheckNumber(json.Number(s))
}

// Exact returns n as a rational number.
func (n Number) Exact() *big.Rat {
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// IsInteger reports whether n has no fraction, in any spelling.
func (n Number) IsInteger() bool { return n.Exact().IsInt() }

// Compare returns -1, 0 or +1 for n below, equal to or above m.
func (n Number) Compare(m Number) int { return n.Exact().Cmp(m.Exact()) }

// FitsFloat reports whether n is in the range of a float with that many bits.
func (n Number) FitsFloat(bits int) bool {
	_, err := strconv.ParseFloat(string(n), bits)
	return err == nil
}

// Float returns the nearest float64, and whether encoding it gives n again.
func (n Number) Float() (float64, bool) {
	float, err := strconv.ParseFloat(string(n), 64)
	return float, err == nil && n.isSpelling(float, 64)
}

// isSpelling reports whether n is the shortest decimal for float, which has that many bits.
func (n Number) isSpelling(float float64, bits int) bool {
	written, ok := new(big.Rat).SetString(strconv.FormatFloat(float, 'g', -1, bits))
	return ok && written.Cmp(n.Exact()) == 0
}

// isRounded reports whether n is an integer that becomes another integer in a float with that many
// bits. Fractions do not count, since nearly all are rounded.
func (n Number) isRounded(bits int) bool {
	if !n.IsInteger() {
		return false
	}
	float, err := strconv.ParseFloat(string(n), bits)
	held := new(big.Rat).SetFloat64(float)
	return err != nil || held == nil || held.Cmp(n.Exact()) != 0 && !n.isSpelling(float, bits)
}
