package jsonx

import (
	"strconv"
	"unicode/utf8"
)

// maxQuote limits the input quoted in an error, so that a peer cannot flood logs.
const maxQuote = 64

// Reasons for which [SyntaxError.IsText] reports true.
const (
	reasonSurrogate = "lone surrogate"
	reasonUTF8      = "invalid UTF-8"
)

const reasonDepth = "nesting too deep"

// SyntaxError is the reason for which a document is refused.
type SyntaxError struct {
	Offset int    // of the byte where the error was found
	Reason string // without the offset; quotes at most 64 bytes of input
}

// Error returns the reason and the offset.
func (e *SyntaxError) Error() string {
	return "json: " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

// TypeError means that a value is of another kind than requested.
type TypeError struct {
	Want, Got Kind
}

// Error names both kinds.
func (e *TypeError) Error() string {
	return "json: want " + e.Want.String() + ", got " + e.Got.String()
}

// RangeError means that a number does not fit the requested type.
type RangeError struct {
	Text   string // the number, truncated to 64 bytes
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

// clip truncates b to maxQuote bytes at a rune. This package must not import errtext.
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
