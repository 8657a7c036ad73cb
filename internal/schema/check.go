package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// A checker holds a raw document against a plan. It takes the same steps that [counter] counts, so that both refuse the
// same documents for their size. Unlike the validator it goes over the bytes of a value again for whatever contains it and for
// each subschema in place, so it counts those, too.
type checker struct {
	left  int64 // steps
	bytes int64 // to go over
}

const (
	// maxPasses is how often a document may be gone over, on the average of its bytes: documents nested far deeper than
	// arguments are, or held against many subschemas at once, take less time decoded.
	maxPasses = 16
	// freeBytes may be gone over whatever the size of the document: small ones cost next to nothing.
	freeBytes = 64 << 10
)

// accepts reports whether doc, which has passed jsonx.Check, certainly matches the schema. If not, the validator has to
// decide.
func (s *Schema) accepts(doc []byte) bool {
	if s.plan == nil || s.plan.hard {
		return false
	}
	c := checker{left: int64(s.maxSteps), bytes: maxPasses*int64(len(doc)) + freeBytes}
	return c.value(s.plan, doc) && c.left >= 0
}

// value checks one value. A nil plan takes any.
func (c *checker) value(p *plan, raw []byte) bool {
	if c.bytes -= int64(len(raw)); c.bytes < 0 {
		return false
	}
	if p == nil {
		return ordinaryNumbers(raw)
	}
	if p.hard {
		return false
	}
	c.left -= p.fixed
	kind := jsonx.KindOf(raw)
	if p.types != 0 && p.types&setOf(kind) == 0 || c.left < 0 {
		return false
	}
	ok := false
	switch kind {
	case jsonx.String:
		ok = c.text(p, raw)
	case jsonx.Number:
		ok = p.number(raw)
	case jsonx.Object:
		ok = c.object(p, raw)
	case jsonx.Array:
		ok = c.array(p, raw)
	case jsonx.Bool, jsonx.Null:
		ok = true
	}
	// An enumeration is known by its strings alone.
	if !ok || kind != jsonx.String && p.strings != nil && p.strings.values != nil {
		return false
	}
	for _, sub := range p.all {
		if !c.value(sub, raw) {
			return false
		}
	}
	return true
}

func (c *checker) text(p *plan, raw []byte) bool {
	if p.strings == nil && p.text == 0 {
		return true
	}
	text, err := jsonx.TextBytes(raw)
	if err != nil {
		return false
	}
	c.left -= p.text * int64(1+len(text)/8)
	if p.strings == nil {
		return c.left >= 0
	}
	s := p.strings
	if s.values != nil {
		if _, ok := s.values[string(text)]; !ok {
			return false
		}
	}
	if s.minimum > 0 || s.maximum < len(text) {
		if n := utf8.RuneCount(text); n < s.minimum || n > s.maximum {
			return false
		}
	}
	if c.left < 0 || s.pattern != nil && !s.pattern.Match(text) {
		return false
	}
	return s.format == "" || CheckFormat(s.format, string(text))
}

func (p *plan) number(raw []byte) bool {
	if !p.whole && p.numbers == nil {
		return ordinary(raw)
	}
	if bytes.ContainsAny(raw, ".eE") { // may be whole all the same
		return false
	}
	if p.numbers == nil {
		return ordinary(raw)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && p.numbers.minimum <= n && n <= p.numbers.maximum
}

// errNotAccepted stops a walk.
var errNotAccepted = errors.New("not accepted")

func (c *checker) object(p *plan, raw []byte) bool {
	members, required := 0, 0
	err := jsonx.Members(raw, func(name, value []byte) error {
		members++
		sub := p.other
		if p.looksIn {
			property := p.find(name)
			declared := property != nil && property.declared
			if declared {
				sub = property.plan
			} else if p.closed {
				return errNotAccepted
			}
			if property != nil && property.required {
				required++
			}
		}
		if !c.value(sub, value) {
			return errNotAccepted
		}
		return nil
	})
	c.left -= int64(members)
	return err == nil && required == p.required && p.minMembers <= members && members <= p.maxMembers
}

func (c *checker) array(p *plan, raw []byte) bool {
	items := 0
	err := jsonx.Elements(raw, func(_ int, value []byte) error {
		items++
		if !c.value(p.items, value) {
			return errNotAccepted
		}
		return nil
	})
	c.left -= int64(items)
	return err == nil && p.minItems <= items && items <= p.maxItems
}

// ordinaryNumbers reports whether all numbers in raw, wherever they are, may be computed with.
func ordinaryNumbers(raw []byte) bool {
	return jsonx.Numbers(raw, func(number []byte) error {
		if !ordinary(number) {
			return errNotAccepted
		}
		return nil
	}) == nil
}

// ordinary is [CheckNumber] for bytes.
func ordinary(number []byte) bool {
	if len(number) <= maxDigits && bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return true
	}
	return CheckNumber(json.Number(number)) == nil
}
