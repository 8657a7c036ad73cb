package jsonx

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// The scan takes eight bytes at once: in a word with a byte of text per lane, masks set the top bit
// of each matching lane. A borrow can set higher lanes too: only the lowest set bit counts.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// The function stops marks quotes, backslashes, control characters and bytes beyond ASCII.
func stops(w uint64) uint64 {
	return ((w - 0x20*ones) | ((w ^ '"'*ones) - ones) | ((w ^ '\\'*ones) - ones) | w) & highs
}

// The function quotes marks quotes and backslashes, but not non-ASCII bytes with their top bit.
func quotes(w uint64) uint64 {
	q, b := w^'"'*ones, w^'\\'*ones
	return ((q - ones) | (b - ones)) &^ w & highs
}

func plain(data []byte, i int) int {
	// i >= 0 lets the compiler omit bounds checks in this hot loop, and in toQuote.
	for i >= 0 && i <= len(data)-8 {
		if m := stops(binary.LittleEndian.Uint64(data[i : i+8])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(data) && isPlain(data[i]) {
		i++
	}
	return i
}

func isPlain(c byte) bool { return c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func isDigit(c byte) bool { return c-'0' < 10 }

func skipSpace(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && isSpace(data[i]) {
		i++
	}
	return i
}

// checkString validates the string whose opening quote is at i-1. It returns the position after the
// closing quote and whether the string has escapes, or the position of an error and its reason.
func checkString(data []byte, i int) (end int, escaped bool, reason string) {
	for {
		i = plain(data, i)
		if i >= len(data) {
			return i, escaped, "unterminated string"
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, escaped, ""
		case c == '\\':
			escaped = true
			n, reason := checkEscape(data[i:])
			if reason != "" {
				return i, escaped, reason
			}
			i += n
		case c < ' ':
			return i, escaped, "control character in string"
		default:
			for i < len(data) && data[i] >= utf8.RuneSelf {
				_, n := utf8.DecodeRune(data[i:])
				if n == 1 {
					return i, escaped, reasonUTF8
				}
				i += n
			}
		}
	}
}

// checkEscape validates the escape at the start of b and returns its length.
func checkEscape(b []byte) (n int, reason string) {
	if len(b) < 2 {
		return 0, "unterminated string"
	}
	if b[1] != 'u' {
		if unescaped(b[1]) == 0 {
			return 0, "invalid escape"
		}
		return 2, ""
	}
	r, n := decodeUnicode(b)
	switch {
	case n == 0:
		return 0, "invalid escape"
	case r == utf8.RuneError && n == 6 && isSurrogate(hex4(b[2:])):
		return 0, reasonSurrogate
	}
	return n, ""
}

// The function unescaped returns the character for the short escape \c, 0 if there is none.
func unescaped(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// decodeUnicode decodes the \uXXXX or surrogate pair at the start of b and returns its length, 0 if
// malformed. A lone surrogate is utf8.RuneError.
func decodeUnicode(b []byte) (r rune, n int) {
	if len(b) < 6 {
		return 0, 0
	}
	hi := hex4(b[2:])
	if hi < 0 {
		return 0, 0
	}
	if !isSurrogate(hi) {
		return hi, 6
	}
	if hi < 0xdc00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
		if lo := hex4(b[8:]); lo >= 0xdc00 && lo <= 0xdfff {
			return (hi-0xd800)<<10 | (lo - 0xdc00) + 0x10000, 12
		}
	}
	return utf8.RuneError, 6
}

func isSurrogate(r rune) bool { return r >= 0xd800 && r <= 0xdfff }

// hex4 reads the first four bytes as hexadecimal digits, or returns -1.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// checkNumber returns the end of the number at i, or the position of an error and false.
func checkNumber(data []byte, i int) (end int, ok bool) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	start := i
	if i = digits(data, i); i == start || data[start] == '0' && i > start+1 {
		return start, false
	}
	if i < len(data) && data[i] == '.' {
		start = i + 1
		if i = digits(data, start); i == start {
			return i, false
		}
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		start = i
		if i = digits(data, i); i == start {
			return i, false
		}
	}
	return i, true
}

func digits(data []byte, i int) int {
	for i < len(data) && isDigit(data[i]) {
		i++
	}
	return i
}
