package jsonx

import (
	"math/bits"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendText appends s as a JSON string. It escapes control characters, quotes, backslashes and the
// JavaScript line ends U+2028 and U+2029, but not HTML. Invalid UTF-8 becomes U+FFFD.
func AppendText(dst []byte, s string) []byte { return appendText(dst, s, true) }

// AppendName appends a member's name and colon, preceded by a comma unless dst ends with "{".
func AppendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(AppendText(dst, name), ':')
}

// AppendTextBytes is [AppendText] for bytes. s must not overlap the spare capacity of dst.
func AppendTextBytes(dst, s []byte) []byte { return appendText(dst, s, true) }

// appendText appends s quoted; lines says whether to escape JavaScript line ends.
func appendText[T string | []byte](dst []byte, s T, lines bool) []byte {
	dst = append(dst, '"')
	for i, done := 0, 0; ; {
		i = plainIn(s, i)
		if i == len(s) {
			dst = append(dst, s[done:]...)
			break
		}
		c := s[i]
		if c < utf8.RuneSelf {
			dst = append(dst, s[done:i]...)
			dst = appendEscape(dst, c)
			i++
			done = i
			continue
		}
		r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, s[done:i]...)
			dst = append(dst, "\ufffd"...)
			done = i + n
		case lines && (r == '\u2028' || r == '\u2029'):
			dst = append(dst, s[done:i]...)
			dst = append(dst, `\u202`...)
			dst = append(dst, hexDigits[r&0xf])
			done = i + n
		}
		i += n
	}
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
}

// plainIn is [plain] for strings and bytes.
func plainIn[T string | []byte](s T, i int) int {
	for i >= 0 && i <= len(s)-8 {
		w := s[i : i+8]
		m := stops(uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56)
		if m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(s) && isPlain(s[i]) {
		i++
	}
	return i
}

// AppendCompact appends raw, which has passed [Check], without insignificant white space.
func AppendCompact(dst, raw []byte) []byte {
	done := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			if i = skipString(raw, i+1); i < 0 {
				i = len(raw)
			}
		case isSpace(c):
			dst = append(dst, raw[done:i]...)
			i = skipSpace(raw, i)
			done = i
		default:
			i++
		}
	}
	return append(dst, raw[done:]...)
}
