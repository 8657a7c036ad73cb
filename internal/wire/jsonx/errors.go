package jsonx

import (
	"strconv"
	"unicode/utf8"
)

// maxQuote is how many bytes of input an error message repeats at most: a peer must not be able to
// fill our logs.
const maxQuote = 64

// Reasons for which [SyntaxError.IsText] reports true.
const (
	reasonSurrogate = "lone surrogate"
	reasonUTF8      = "invalid UTF-8"
)

const reasonDepth = "nesting too deep"

// SyntaxError says why a document was refused.
type SyntaxError struct {
	Offset int    // byte at which the trouble was seen
	Reason string // without the place; repeats at most 64 bytes of input
}

// Error returns the reason and the place.
func (e *SyntaxError) Error() string {
	return "json: " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

// TypeError means that a value is of another kind than the caller asked for.
type TypeError struct {
	Want, Got Kind
}

// Error names both kinds.
func (e *TypeError) Error() string {
	return "json: want " + e.Want.String() + ", got " + e.Got.String()
}

// RangeError means that a number does not fit what the caller asked for.
type RangeError struct {
	Text   string // the number, cut to 64 bytes
	Reason string
}

// Error returns the number and the reason.
func (e *RangeError) Error() string {
	return "json: number " + strconv.Quote(e.Text) + " " + e.Reason
}

func syntaxError(offset int, reason string) error {
	return &SyntaxError{Offset: offset, Reason: reason}
}

func typeError(want Kind, raw []byte) error {
	return &TypeError{Want: want, Got: KindOf(raw)}
}

func rangeError(raw []byte, reason string) error {
	return &RangeError{Text: clip(raw), Reason: reason}
}

// clip returns at most maxQuote bytes of b, not splitting a rune, as package errtext does with
// strings. This package imports nothing of the module.
func clip(b []byte) string {
	if len(b) <= maxQuote {
		return string(b)
	}
	n := maxQuote
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return string(b[:n])
}
