package jsonx

import (
	"encoding/binary"
	"math/bits"
)

// Members calls f for each member of the object data, in order, with its unescaped name and trimmed
// raw value. The value aliases data, and so does a name without escapes; neither may be modified.
// Members returns a *[TypeError] if data is not an object, a *[SyntaxError] for an error it happens
// to find, or the error of f, at which it stops.
//
// data must have passed [Check] or be part of checked JSON: Members does not validate the values.
func Members(data []byte, f func(key, value []byte) error) error {
	return PresentMembers(data, nil, f)
}

// PresentMembers is [Members] without null members, unless keepsNull is nil or reports true.
func PresentMembers(
	data []byte, keepsNull func(key []byte) bool, f func(key, value []byte) error,
) error {
	i := skipSpace(data, 0)
	if i == len(data) || data[i] != '{' {
		return typeError(Object, data)
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return atEnd(data, i+1)
	}
	for {
		if i >= len(data) || data[i] != '"' {
			return syntaxError(i, "missing member name")
		}
		key, end, err := memberName(data, i)
		if err != nil {
			return err
		}
		i = skipSpace(data, end)
		if i >= len(data) || data[i] != ':' {
			return syntaxError(i, "missing colon")
		}
		i = skipSpace(data, i+1)
		end = skipValue(data, i)
		if end < 0 {
			return syntaxError(i, "malformed value")
		}
		if keepsNull == nil || data[i] != 'n' || keepsNull(key) {
			if err := f(key, data[i:end:end]); err != nil {
				return err
			}
		}
		more := false
		if i, more, err = next(data, end, '}'); !more {
			return err
		}
	}
}

// HasMember reports whether data, which may be unchecked, is an object with this member.
func HasMember(data []byte, name string) (found bool) {
	OuterMembers(data, func(key, _ []byte) { found = found || string(key) == name })
	return found
}

// memberName returns the unescaped name whose opening quote is at i, and the position after it.
func memberName(data []byte, i int) (name []byte, end int, err error) {
	if end = toQuote(data, i+1); end < len(data) && data[end] == '"' {
		return data[i+1 : end : end], end + 1, nil
	}
	if end = skipString(data, i+1); end < 0 {
		return nil, 0, syntaxError(i, "unterminated string")
	}
	name, err = TextBytes(data[i:end])
	return name, end, err
}

// toQuote returns the position of the first quote or backslash from i on, or len(data).
func toQuote(data []byte, i int) int {
	for i >= 0 && i <= len(data)-8 { // see plain
		if m := quotes(binary.LittleEndian.Uint64(data[i : i+8])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
		i += 8
	}
	for i < len(data) && data[i] != '"' && data[i] != '\\' {
		i++
	}
	return i
}

// Elements is [Members] for arrays: it calls f with the index and raw value of each element.
func Elements(data []byte, f func(i int, value []byte) error) error {
	i := skipSpace(data, 0)
	if i == len(data) || data[i] != '[' {
		return typeError(Array, data)
	}
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == ']' {
		return atEnd(data, i+1)
	}
	for k := 0; ; k++ {
		end := skipValue(data, i)
		if end < 0 {
			return syntaxError(i, "malformed value")
		}
		if err := f(k, data[i:end:end]); err != nil {
			return err
		}
		more, err := false, error(nil)
		if i, more, err = next(data, end, ']'); !more {
			return err
		}
	}
}

// Numbers calls f for each number in data, at any depth, and returns the error of f, at which it
// stops. data must have passed [Check] or be part of checked JSON.
func Numbers(data []byte, f func(number []byte) error) error {
	for i := 0; i < len(data); {
		c := data[i]
		switch {
		case c == '"':
			if i = skipString(data, i+1); i < 0 {
				return syntaxError(len(data), "unterminated string")
			}
		case c == '-' || isDigit(c):
			end := i + 1
			for end < len(data) && !endsScalar(data[end]) {
				end++
			}
			if err := f(data[i:end:end]); err != nil {
				return err
			}
			i = end
		default:
			i++
		}
	}
	return nil
}

// The function next returns the position after a comma, or checks that a closing bracket is last.
func next(data []byte, i int, closing byte) (pos int, more bool, err error) {
	i = skipSpace(data, i)
	switch {
	case i >= len(data):
		return i, false, syntaxError(i, "unexpected end")
	case data[i] == ',':
		return skipSpace(data, i+1), true, nil
	case data[i] == closing:
		return i, false, atEnd(data, i+1)
	}
	return i, false, syntaxError(i, "missing comma or closing bracket")
}

func atEnd(data []byte, i int) error {
	if i = skipSpace(data, i); i < len(data) {
		return syntaxError(i, "text after the value")
	}
	return nil
}

// skipValue returns the position after the value at i, or -1 if there is none. It counts brackets
// and takes any run of other characters for a literal or number, relying on Check.
func skipValue(data []byte, i int) int {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"':
		return skipString(data, i+1)
	case '{', '[':
		return skipBrackets(data, i)
	}
	start := i
	for i < len(data) && !endsScalar(data[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func endsScalar(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ':' || c == '"' || isSpace(c)
}

// skipString returns the position after the string whose opening quote is at i-1, or -1.
func skipString(data []byte, i int) int {
	for {
		if i = toQuote(data, i); i >= len(data) {
			return -1
		}
		if data[i] == '"' {
			return i + 1
		}
		i += 2 // a backslash and the escaped character
	}
}

// skipBrackets returns the position after the bracket that closes the one at i, or -1.
func skipBrackets(data []byte, i int) int {
	for depth := 0; i < len(data); {
		c := data[i]
		i++
		switch c {
		case '"':
			if i = skipString(data, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
