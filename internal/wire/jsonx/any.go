package jsonx

import "strconv"

// decodeAny decodes checked JSON like encoding/json. It reports false if a number is out of range.
func decodeAny(raw []byte) (any, bool) {
	r := anyReader{data: raw}
	v, ok := r.readValue(0)
	return v, ok && r.at == len(raw)
}

// anyReader decodes a document in one pass. Elements and members of all open arrays and objects are
// collected at the ends of its slices, then copied to memory of the exact size.
type anyReader struct {
	data   []byte
	at     int
	values []any
	keys   []string
	names  [64]string // seen names, for reuse
}

func (r *anyReader) readValue(depth int) (any, bool) {
	if r.at >= len(r.data) {
		return nil, false
	}
	switch c := r.data[r.at]; c {
	case '"':
		text, ok := r.readText()
		return string(text), ok
	case '{', '[':
		if depth == MaxDepth {
			return nil, false
		}
		if c == '{' {
			return r.readObject(depth + 1)
		}
		return r.readArray(depth + 1)
	case 't':
		return true, r.readLiteral("true")
	case 'f':
		return false, r.readLiteral("false")
	case 'n':
		return nil, r.readLiteral("null")
	}
	return r.readNumber()
}

func (r *anyReader) readLiteral(want string) bool {
	end := r.at + len(want)
	if end > len(r.data) || string(r.data[r.at:end]) != want {
		return false
	}
	r.at = end
	return true
}

// readText reads a string, which may alias the data.
func (r *anyReader) readText() ([]byte, bool) {
	end := skipString(r.data, r.at+1)
	if end < 0 {
		return nil, false
	}
	text, err := TextBytes(r.data[r.at:end])
	r.at = end
	return text, err == nil
}

func (r *anyReader) readNumber() (any, bool) {
	start := r.at
	for r.at < len(r.data) && !endsScalar(r.data[r.at]) {
		r.at++
	}
	raw := r.data[start:r.at]
	if end, ok := checkNumber(raw, 0); !ok || end != len(raw) {
		return nil, false
	}
	if n, ok := shortInteger(raw); ok {
		return float64(n), true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil
}

// shortInteger reads a non-negative integer that a float64 represents exactly.
func shortInteger(raw []byte) (n int64, ok bool) {
	if len(raw) > 15 {
		return 0, false
	}
	for _, c := range raw {
		if !isDigit(c) {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

func (r *anyReader) readArray(depth int) (any, bool) {
	base := len(r.values)
	for r.nextValue(']') {
		v, ok := r.readValue(depth)
		if !ok {
			return nil, false
		}
		r.values = append(r.values, v)
		if !r.skipToSeparator(']') {
			return nil, false
		}
	}
	list := make([]any, len(r.values)-base)
	copy(list, r.values[base:])
	r.values = r.values[:base]
	return list, true
}

func (r *anyReader) readObject(depth int) (any, bool) {
	base, names := len(r.values), len(r.keys)
	for r.nextValue('}') {
		if r.at >= len(r.data) || r.data[r.at] != '"' {
			return nil, false
		}
		name, ok := r.readText()
		if !ok {
			return nil, false
		}
		r.at = skipSpace(r.data, r.at)
		if r.at >= len(r.data) || r.data[r.at] != ':' {
			return nil, false
		}
		r.at = skipSpace(r.data, r.at+1)
		r.keys = append(r.keys, r.internName(name))
		v, ok := r.readValue(depth)
		if !ok {
			return nil, false
		}
		r.values = append(r.values, v)
		if !r.skipToSeparator('}') {
			return nil, false
		}
	}
	members := make(map[string]any, len(r.values)-base)
	for i, v := range r.values[base:] {
		members[r.keys[names+i]] = v
	}
	r.values, r.keys = r.values[:base], r.keys[:names]
	return members, true
}

// nextValue skips the bracket or comma before the next value, or the closing bracket (false).
func (r *anyReader) nextValue(closing byte) bool {
	if r.data[r.at] != closing {
		r.at = skipSpace(r.data, r.at+1)
	}
	if r.at < len(r.data) && r.data[r.at] == closing {
		r.at++
		return false
	}
	return true
}

func (r *anyReader) skipToSeparator(closing byte) bool {
	r.at = skipSpace(r.data, r.at)
	return r.at < len(r.data) && (r.data[r.at] == ',' || r.data[r.at] == closing)
}

// internName returns name as a string, reusing earlier ones.
func (r *anyReader) internName(name []byte) string {
	const longest = 32
	if len(name) == 0 || len(name) > longest {
		return string(name)
	}
	hash := uint(len(name))*31 + uint(name[0])*7 + uint(name[len(name)-1])
	seen := &r.names[hash%uint(len(r.names))]
	if *seen != string(name) {
		*seen = string(name)
	}
	return *seen
}
