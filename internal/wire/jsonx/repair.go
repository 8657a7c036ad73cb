package jsonx

import "unicode/utf8"

// A Care says which strings of a value [Repair] leaves unchanged. Unused bits are the caller's.
type Care uint8

const (
	KeepText  Care = 1 << iota // the value, if a string, or the elements of a list
	KeepNames                  // the names of its members
	Entries                    // the value is a list of independent entries
)

// maxGrowth limits the added length: U+FFFD takes three bytes, an invalid byte one.
const maxGrowth = 1 << 20

// TooDeep replaces an entry that is nested too deep.
const TooDeep = `"(left out: nests too deep)"`

// IsText reports whether the document is refused for invalid Unicode in text.
func (e *SyntaxError) IsText() bool {
	return e.Reason == reasonSurrogate || e.Reason == reasonUTF8
}

// IsDepth reports whether the document is refused for its nesting.
func (e *SyntaxError) IsDepth() bool { return e.Reason == reasonDepth }

// Repair returns a copy of data with U+FFFD for each lone surrogate and each invalid UTF-8 byte in
// a string, and [TooDeep] for each of the [Entries] nested too deep. The result has to be checked.
// If it would grow by more than 1 MiB, data is returned. careOf is called with each name, the care
// of its object, the number of open brackets, and the first byte of its value.
func Repair(
	data []byte, careOf func(parent Care, depth int, name []byte, first byte) Care,
) []byte {
	out, most := make([]byte, 0, len(data)+len(data)/8), len(data)+maxGrowth
	var open [MaxDepth]Care
	var care Care                          // of the next value
	var entry struct{ at, out, depth int } // the entry of Entries being read, or zero
	for i, depth := 0, 0; i < len(data); {
		if len(out) > most {
			return data
		}
		c, end := data[i], i+1
		switch c {
		case '"':
			if end = skipString(data, i+1); end < 0 {
				return appendRepaired(out, data[i:], most)
			}
			start := len(out)
			out = appendRepaired(out, data[i:end], most)
			keeps := care&KeepText != 0
			if colon := skipSpace(data, end); depth > 0 && colon < len(data) && data[colon] == ':' {
				parent, first := open[depth-1], byte(0)
				if at := skipSpace(data, colon+1); at < len(data) {
					first = data[at]
				}
				name, _ := TextBytes(out[start:])
				keeps, care = parent&KeepNames != 0, careOf(parent, depth, name, first)
			}
			if keeps {
				out = append(out[:start], data[i:end]...)
			}
			i = end
			continue
		case '{', '[':
			if depth > 0 && open[depth-1]&Entries != 0 {
				entry.at, entry.out, entry.depth = i, len(out), depth
				care &^= Entries
			}
			if depth == MaxDepth {
				if end = skipValue(data, entry.at); entry.depth == 0 || end < 0 {
					return append(out, data[i:]...)
				}
				out, i, depth = append(out[:entry.out], TooDeep...), end, entry.depth
				entry.depth = 0
				continue
			}
			open[depth] = care
			depth++
		case '}', ']':
			if depth = max(depth-1, 0); depth <= entry.depth {
				entry.depth = 0
			}
		case ',':
			if depth > 0 {
				care = open[depth-1]
			}
		}
		out, i = append(out, c), end
	}
	return out
}

// appendRepaired appends the string value raw, until dst is longer than most.
func appendRepaired(dst, raw []byte, most int) []byte {
	for i := 0; i < len(raw) && len(dst) <= most; {
		n := 1
		switch {
		case raw[i] == '\\':
			reason := ""
			if n, reason = checkEscape(raw[i:]); reason == reasonSurrogate {
				dst, i = utf8.AppendRune(dst, utf8.RuneError), i+len(`\ud800`)
				continue
			}
			n = min(max(n, 2), len(raw)-i) // malformed escapes stay, to be refused
		case raw[i] >= utf8.RuneSelf:
			var r rune
			if r, n = utf8.DecodeRune(raw[i:]); r == utf8.RuneError {
				dst, i = utf8.AppendRune(dst, r), i+n
				continue
			}
		}
		dst = append(dst, raw[i:i+n]...)
		i += n
	}
	return dst
}

// OuterMembers calls f for the members of unchecked JSON, as far as they can be parsed, and reports
// whether it reached the end. The value is nil if it is truncated.
func OuterMembers(data []byte, f func(key, value []byte)) (whole bool) {
	i := skipSpace(data, 0)
	if i == len(data) || data[i] != '{' {
		return false
	}
	for {
		if i = skipSpace(data, i+1); i >= len(data) || data[i] != '"' {
			return false
		}
		key, end, err := memberName(data, i)
		if i = skipSpace(data, end); err != nil || i >= len(data) || data[i] != ':' {
			return false
		}
		i = skipSpace(data, i+1)
		if end = skipValue(data, i); end < 0 || end == len(data) {
			f(key, nil)
			return false
		}
		f(key, data[i:end:end])
		if i = skipSpace(data, end); i >= len(data) || data[i] != ',' {
			return i < len(data) && data[i] == '}'
		}
	}
}
