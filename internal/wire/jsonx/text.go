package jsonx

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// shortText is the length from which two searches with package bytes and its vector instructions,
// for quotes and for backslashes, are faster.
const shortText = 128

// Text returns the string value raw. It returns a *[TypeError] for another kind of value and a
// *[SyntaxError] if it is malformed.
func Text(raw []byte) (string, error) {
	b, err := TextBytes(raw)
	return string(b), err
}

// TextBytes is like [Text], but if raw has no escapes the result aliases it and is read-only.
func TextBytes(raw []byte) ([]byte, error) {
	raw = trim(raw)
	if len(raw) == 0 || raw[0] != '"' {
		return nil, typeError(String, raw)
	}
	if len(raw) < 2 || raw[len(raw)-1] != '"' {
		return nil, syntaxError(len(raw), "unterminated string")
	}
	body := raw[1 : len(raw)-1 : len(raw)-1]
	if len(body) < shortText && toQuote(body, 0) == len(body) {
		return body, nil
	}
	if bytes.IndexByte(body, '\\') < 0 {
		if i := bytes.IndexByte(body, '"'); i >= 0 {
			return nil, syntaxError(i+1, "text after the value")
		}
		return body, nil
	}
	text, bad := appendUnescaped(make([]byte, 0, len(body)), body)
	if bad >= 0 {
		return nil, syntaxError(bad+1, "malformed string")
	}
	return text, nil
}

// appendUnescaped appends the unescaped body of a string. bad is the position of an error, or -1.
func appendUnescaped(dst, body []byte) (text []byte, bad int) {
	for i := 0; i < len(body); {
		n := bytes.IndexByte(body[i:], '\\')
		if n < 0 {
			n = len(body) - i
		}
		if q := bytes.IndexByte(body[i:i+n], '"'); q >= 0 {
			return dst, i + q
		}
		dst = append(dst, body[i:i+n]...)
		if i += n; i == len(body) {
			break
		}
		n, reason := checkEscape(body[i:])
		if reason != "" {
			return dst, i
		}
		if body[i+1] == 'u' {
			r, _ := decodeUnicode(body[i:])
			dst = utf8.AppendRune(dst, r)
		} else {
			dst = append(dst, unescaped(body[i+1]))
		}
		i += n
	}
	return dst, -1
}

// Int returns the integer value raw in any spelling: 5, 5.0 and 50e-1 are equal. It returns a
// *[TypeError] if raw is not a number and a *[RangeError] if it is not an integer of 64 bits.
func Int(raw []byte) (int64, error) {
	raw = trim(raw)
	if KindOf(raw) != Number {
		return 0, typeError(Number, raw)
	}
	if end, ok := checkNumber(raw, 0); !ok || end != len(raw) {
		return 0, syntaxError(end, "malformed number")
	}
	plain, ok := PlainInteger(raw)
	if !ok {
		return 0, rangeError(raw, "is not an integer")
	}
	n, err := parseInt(plain)
	if err != nil {
		return 0, rangeError(raw, "does not fit 64 bits")
	}
	return n, nil
}

func parseInt(raw []byte) (int64, error) { return strconv.ParseInt(string(raw), 10, 64) }

// Boolean returns the value raw, or a *[TypeError].
func Boolean(raw []byte) (bool, error) {
	switch string(trim(raw)) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if KindOf(raw) == Bool {
		return false, syntaxError(0, "malformed literal")
	}
	return false, typeError(Bool, raw)
}

func trim(raw []byte) []byte {
	raw = raw[skipSpace(raw, 0):]
	for n := len(raw); n > 0 && isSpace(raw[n-1]); n-- {
		raw = raw[:n-1]
	}
	return raw
}
