package jsonx

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// shortText is the length from which looking for quotes and backslashes one after the other, with
// the vector instructions of package bytes, is faster.
const shortText = 128

// Text returns the text of the string value raw. It returns a *[TypeError] if raw is another kind
// of value and a *[SyntaxError] if it is malformed.
func Text(raw []byte) (string, error) {
	b, err := TextBytes(raw)
	return string(b), err
}

// TextBytes is like [Text], but the result aliases raw where raw has no escapes; it must not be
// modified then.
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

// appendUnescaped appends the text between the quotes of a string value, without its escapes. bad
// is the position of a malformed one, else -1.
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

// Int returns the integer value raw, however it is spelled: 5, 5.0 and 50e-1 are one number. It
// returns a *[TypeError] if raw is no number and a *[RangeError] if it is no integer or does not
// fit.
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
		return 0, rangeError(raw, "is no integer")
	}
	n, err := parseInt(plain)
	if err != nil {
		return 0, rangeError(raw, "does not fit 64 bits")
	}
	return n, nil
}

func parseInt(raw []byte) (int64, error) { return strconv.ParseInt(string(raw), 10, 64) }

// Boolean returns the value raw, true or false, or a *[TypeError].
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

// trim returns raw without the white space around it.
func trim(raw []byte) []byte {
	raw = raw[skipSpace(raw, 0):]
	for n := len(raw); n > 0 && isSpace(raw[n-1]); n-- {
		raw = raw[:n-1]
	}
	return raw
}
