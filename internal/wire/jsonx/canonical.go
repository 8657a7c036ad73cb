package jsonx

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
)

// keepMoved limits the sort buffers returned to the pool, in bytes; a message of 64 KiB fits.
const keepMoved = 256 << 10

// AppendCanonical appends a canonical form of raw, for digests. It is JSON, and differs for
// different values: no white space, members sorted by the bytes of their unescaped names, only the
// escapes that RFC 8259 requires, and numbers as exact decimals, so that 1, 1.0 and 10e-1 agree
// while 2^53 and 2^53+1 differ.
//
// raw must have passed [Check]; otherwise the result is an error or meaningless, but never a panic.
// Numbers beyond [MaxExponent] are a *[RangeError]. On error the result is dst.
func AppendCanonical(dst, raw []byte) ([]byte, error) {
	return appendCanonical(dst, raw, false)
}

// AppendCanonicalSpelled is like [AppendCanonical], but keeps numbers as spelled: 1, 1.0 and 1e0
// differ, and so do 0 and -0. It is for text that people read, and accepts any exponent.
func AppendCanonicalSpelled(dst, raw []byte) ([]byte, error) {
	return appendCanonical(dst, raw, true)
}

func appendCanonical(dst, raw []byte, spelled bool) ([]byte, error) {
	c := canonicals.Get().(*canonical)
	c.spelled = spelled
	out, err := c.appendValue(dst, trim(raw), 0)
	if err != nil {
		out = dst
	}
	c.releaseMemory()
	canonicals.Put(c)
	return out, err
}

var canonicals = sync.Pool{New: func() any { return new(canonical) }}

// canonical is the scratch memory of one call of AppendCanonical.
type canonical struct {
	members []member // of all open objects
	moved   []byte   // members before sorting
	spelled bool     // keep numbers as spelled
}

type member struct {
	name       []byte // unescaped
	start, end int    // of name, colon and value, relative to the object
}

func (c *canonical) releaseMemory() {
	if cap(c.members) > keepSlots {
		c.members = nil
	}
	if cap(c.moved) > keepMoved {
		c.moved = nil
	}
}

// appendValue appends the trimmed value raw at the given depth.
func (c *canonical) appendValue(dst, raw []byte, depth int) ([]byte, error) {
	switch kind := KindOf(raw); kind {
	case Object, Array:
		if depth == MaxDepth {
			return dst, syntaxError(0, "nesting too deep")
		}
		if kind == Object {
			return c.appendObject(dst, raw, depth+1)
		}
		return c.appendArray(dst, raw, depth+1)
	case String:
		text, err := TextBytes(raw)
		return appendText(dst, text, false), err
	case Number:
		if !c.spelled {
			return AppendNumber(dst, raw)
		}
		if end, ok := checkNumber(raw, 0); !ok || end != len(raw) {
			return dst, syntaxError(end, "malformed number")
		}
		return append(dst, raw...), nil
	}
	switch string(raw) {
	case "true", "false", "null":
		return append(dst, raw...), nil
	}
	return dst, syntaxError(0, "malformed value")
}

func (c *canonical) appendArray(dst, raw []byte, depth int) ([]byte, error) {
	dst = append(dst, '[')
	err := Elements(raw, func(i int, value []byte) (err error) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, err = c.appendValue(dst, value, depth)
		return err
	})
	return append(dst, ']'), err
}

// appendObject appends the members in document order and then, if they were not sorted, sorts the
// output, which visits each value once, however deep.
func (c *canonical) appendObject(dst, raw []byte, depth int) ([]byte, error) {
	start, base, sorted := len(dst), len(c.members), true
	dst = append(dst, '{')
	err := Members(raw, func(name, value []byte) (err error) {
		if len(c.members) > base {
			dst = append(dst, ',')
			sorted = sorted && bytes.Compare(c.members[len(c.members)-1].name, name) < 0
		}
		m := member{name: name, start: len(dst) - start}
		c.members = append(c.members, m)
		dst = append(appendText(dst, name, false), ':')
		at := len(c.members) - 1
		dst, err = c.appendValue(dst, value, depth)
		c.members[at].end = len(dst) - start
		return err
	})
	if err == nil && !sorted {
		dst, err = c.sortMembers(dst, start, c.members[base:])
	}
	clear(c.members[base:]) // idle memory must not retain the document
	c.members = c.members[:base]
	return append(dst, '}'), err
}

// sortMembers sorts the members of the object that begins at dst[start:].
func (c *canonical) sortMembers(dst []byte, start int, members []member) ([]byte, error) {
	slices.SortFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	c.moved = append(c.moved[:0], dst[start:]...)
	dst = dst[:start+1]
	for i, m := range members {
		if i > 0 {
			if bytes.Equal(members[i-1].name, m.name) {
				return dst, syntaxError(0, "duplicate member "+strconv.Quote(clip(m.name)))
			}
			dst = append(dst, ',')
		}
		dst = append(dst, c.moved[m.start:m.end]...)
	}
	return dst, nil
}
