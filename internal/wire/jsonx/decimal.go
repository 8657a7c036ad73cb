package jsonx

import (
	"bytes"
	"math"
	"strconv"
)

const (
	// MaxExponent limits the power of ten in the canonical form of a number, in either direction.
	// It protects code that expands the number from unbounded allocation.
	MaxExponent = 10000

	// plainDigits is the longest integer written without exponent; 64-bit integers fit.
	plainDigits = 21
)

// AppendNumber appends the canonical form of the number raw, equal for equal values: 0, an integer
// of at most plainDigits digits, or MeE, with M an integer without trailing zeros, or M alone if E
// is zero and M is longer than plainDigits.
func AppendNumber(dst, raw []byte) ([]byte, error) {
	if end, ok := checkNumber(raw, 0); !ok || end != len(raw) {
		return dst, syntaxError(end, "malformed number")
	}
	start := len(dst)
	mantissa, exponent := raw, int64(0)
	if i := bytes.IndexAny(raw, "eE"); i >= 0 {
		mantissa, exponent = raw[:i], parseExponent(raw[i+1:])
	}
	if mantissa[0] == '-' {
		dst = append(dst, '-')
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	exponent -= int64(len(fraction))

	first := len(dst)
	dst = append(append(dst, whole...), fraction...)
	kept := bytes.TrimLeft(dst[first:], "0")
	if len(kept) == 0 {
		return append(dst[:start], '0'), nil // -0 is 0
	}
	zeros := len(kept)
	kept = bytes.TrimRight(kept, "0")
	exponent += int64(zeros - len(kept))
	if exponent > MaxExponent || exponent < -MaxExponent {
		return dst[:start], rangeError(raw, "has too large an exponent")
	}
	dst = append(dst[:first], kept...) // moves left, if at all
	if exponent >= 0 && int64(len(kept))+exponent <= plainDigits {
		for ; exponent > 0; exponent-- {
			dst = append(dst, '0')
		}
	}
	if exponent == 0 {
		return dst, nil
	}
	return strconv.AppendInt(append(dst, 'e'), exponent, 10), nil
}

// PlainInteger returns the number raw spelled without fraction and exponent, and whether it is an
// integer. An integer with an exponent must have at most 21 digits in this spelling. The result
// aliases raw if raw already has it.
func PlainInteger(raw []byte) ([]byte, bool) {
	if !bytes.ContainsAny(raw, ".eE") {
		return raw, true
	}
	plain, err := AppendNumber(nil, raw)
	if err != nil || bytes.IndexByte(plain, 'e') >= 0 {
		return nil, false
	}
	return plain, true
}

// parseExponent reads an exponent, clamped to 32 bits: no mantissa can make up for more.
func parseExponent(b []byte) int64 {
	n, err := strconv.ParseInt(string(bytes.TrimPrefix(b, []byte{'+'})), 10, 64)
	if err == nil && n <= 2*math.MaxUint32 && n >= -2*math.MaxUint32 {
		return n
	}
	if b[0] == '-' {
		return -2 * math.MaxUint32
	}
	return 2 * math.MaxUint32
}
