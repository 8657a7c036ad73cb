package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A checker checks a raw document against a plan. It uses the evaluator for what has to be decoded
// and finds the same faults. Unlike the evaluator it scans the bytes of a value again for each
// array or object around it and for each subschema in place, so it counts bytes as well as steps.
type checker struct {
	evaluator
	bytes   int64 // that may still be scanned
	decodes int   // values that were decoded
	bad     error // a number that takes too long to compute with
}

const (
	// maxPasses is how often a document may be scanned, on the average of its bytes. A document
	// that is nested far deeper than arguments usually are, or is checked against many subschemas
	// in place, takes less time when it is decoded once.
	maxPasses = 16
	// decodePasses is how often a value can be scanned in the time that decoding it takes. Several
	// subschemas in place may each decode a value: after the second time the document is decoded as
	// a whole.
	decodePasses = 7
	// freeBytes may be scanned whatever the size of the document, since small documents cost
	// little.
	freeBytes = 64 << 10
)

// passedOver reports whether the document takes too many scans and has to be decoded as a whole.
func (c *checker) passedOver() bool { return c.bytes < 0 && c.left >= 0 && c.bad == nil }

// reportFault returns the error for the fault that the walk found, nil for none.
func (c *checker) reportFault(f *fault) error {
	if c.bad != nil && c.left >= 0 {
		return &Error{Reason: c.bad.Error()}
	}
	return c.evaluator.reportFault(f)
}

// isStopped reports whether a limit is reached or the document is invalid as a whole.
func (c *checker) isStopped() bool { return c.bytes < 0 || c.left < 0 || c.bad != nil || c.broken }

// checkRaw returns the first fault of one value, nil if there is none. A nil plan accepts any
// value.
func (c *checker) checkRaw(p *plan, raw []byte) *fault {
	if c.bytes -= int64(len(raw)); c.isStopped() {
		return c.anyFault()
	}
	if p == nil {
		return c.checkNumbers(raw)
	}
	if p.hard {
		return c.checkDecoded(p, raw)
	}
	if c.left -= p.node.fixed; c.left < 0 {
		return c.anyFault()
	}
	kind := jsonx.KindOf(raw)
	switch {
	case p.never:
		return c.newFault(p.node, ruleFalse)
	case p.types != 0 && p.types&setOf(kind) == 0:
		f := c.newFault(p.node, ruleType)
		f.subject = kindName(kind)
		return f
	case p.enums != 0 && p.enums&setOf(kind) == 0 && kind != jsonx.Number: // which may not be whole
		return c.newFault(p.node, p.enumRule())
	}
	var first *fault
	switch kind {
	case jsonx.String:
		if p.strings != nil {
			accepted, mismatch := c.acceptsText(p.strings, raw)
			if mismatch {
				first = c.newFault(p.node, rulePattern)
			} else if !accepted {
				return c.checkDecoded(p, raw)
			}
		}
	case jsonx.Number:
		if p.enums != 0 || !p.acceptsNumber(raw) {
			return c.checkDecoded(p, raw)
		}
	case jsonx.Object:
		if p.enums != 0 {
			return c.checkDecoded(p, raw)
		}
		first = c.checkObject(p, raw)
	case jsonx.Array:
		if p.enums != 0 {
			return c.checkDecoded(p, raw)
		}
		first = c.checkArray(p, raw)
	default:
		if p.enums != 0 {
			return c.checkDecoded(p, raw)
		}
	}
	for _, sub := range p.all {
		first = firstOf(first, c.checkRaw(sub, raw))
	}
	return first
}

func (p *plan) enumRule() rule {
	if p.node.keywords.Enum != nil {
		return ruleEnum
	}
	return ruleConst
}

// checkDecoded decodes a value and lets the evaluator decide, also about subschemas in place.
func (c *checker) checkDecoded(p *plan, raw []byte) *fault {
	if c.bytes -= decodePasses * int64(len(raw)); c.isStopped() {
		return c.anyFault()
	}
	c.decodes++
	var v any
	err := jsonx.UnmarshalNumbers(raw, &v)
	if err == nil {
		err = checkValue(v, 0)
	}
	if err != nil {
		c.bad = err
		return c.anyFault()
	}
	return c.evaluator.evaluateValue(p.node, v, nil)
}

// acceptsText checks a string. mismatch is set if the pattern is certain to be the first rule that
// it breaks: matching takes long, so it is not left to the evaluator to repeat.
func (c *checker) acceptsText(s *stringPlan, raw []byte) (accepted, mismatch bool) {
	text, err := jsonx.TextBytes(raw)
	if err != nil {
		return false, false
	}
	if s.values != nil {
		if _, ok := s.values[string(text)]; !ok {
			return false, false
		}
	}
	if s.minimum > 0 || s.maximum < len(text) {
		c.left -= int64(1 + len(text)/8)
		if n := utf8.RuneCount(text); n < s.minimum || n > s.maximum {
			return false, false
		}
	}
	if s.format != "" {
		c.left -= int64(1 + len(text)/8)
		if !CheckFormat(s.format, string(text)) {
			return false, false
		}
	}
	if s.pattern == nil {
		return true, false
	}
	if c.left -= patternSteps(s.pattern, len(text)); c.left < 0 {
		return false, false
	}
	matches := s.pattern.Match(text)
	return matches, !matches
}

func (p *plan) acceptsNumber(raw []byte) bool {
	if !p.whole && p.numbers == nil {
		return ordinary(raw)
	}
	n, ok := smallInt(json.Number(raw))
	return ok && (p.numbers == nil || p.numbers.minimum <= n && n <= p.numbers.maximum)
}

// errStop stops a walk when its result is known.
var errStop = errors.New("stop")

// checkObject returns the first fault by name. Members come in the order of the document, so after
// a fault only members with smaller names are checked.
func (c *checker) checkObject(p *plan, raw []byte) (first *fault) {
	members, required := 0, 0
	err := jsonx.Members(raw, func(name, value []byte) error {
		members++
		c.left--
		sub, closed := p.other, false
		if p.looksIn {
			property := p.findProperty(name)
			if property != nil && property.declared {
				sub = property.plan
			} else {
				closed = p.closed
			}
			if property != nil && property.required {
				required++
			}
		}
		if first != nil && first.path[len(first.path)-1].name <= string(name) {
			return nil
		}
		var f *fault
		if closed {
			f = c.newFaultAt(p.node, ruleAdditionalProperties, string(name))
		} else if f = c.checkRaw(sub, value); f != nil {
			c.extendPath(f, member(string(name)))
		}
		if c.isStopped() {
			return errStop
		}
		if f != nil {
			first = f
		}
		return nil
	})
	if err != nil || c.isStopped() {
		return c.anyFault()
	}
	if required != p.required {
		first = firstOf(first, c.findMissing(p, raw))
	}
	if members < p.minMembers {
		first = firstOf(first, c.newFault(p.node, ruleMinProperties))
	}
	if members > p.maxMembers {
		first = firstOf(first, c.newFault(p.node, ruleMaxProperties))
	}
	return first
}

// findMissing returns the fault of the first required member, in the order of the schema, that is
// absent.
func (c *checker) findMissing(p *plan, raw []byte) *fault {
	present := map[string]bool{}
	c.bytes -= int64(len(raw))
	_ = jsonx.Members(raw, func(name, _ []byte) error {
		if property := p.findProperty(name); property != nil && property.required {
			present[property.name] = true
		}
		return nil
	})
	for _, name := range p.node.keywords.Required {
		if !present[name] {
			return c.newFaultAt(p.node, ruleRequired, name)
		}
	}
	return nil
}

func (c *checker) checkArray(p *plan, raw []byte) (first *fault) {
	items := 0
	err := jsonx.Elements(raw, func(i int, value []byte) error {
		items++
		c.left--
		if first == nil {
			if first = c.checkRaw(p.items, value); first != nil {
				c.extendPath(first, step{index: i})
			}
		}
		if c.isStopped() {
			return errStop
		}
		return nil
	})
	if err != nil || c.isStopped() {
		return c.anyFault()
	}
	if items < p.minItems {
		first = firstOf(first, c.newFault(p.node, ruleMinItems))
	}
	if items > p.maxItems {
		first = firstOf(first, c.newFault(p.node, ruleMaxItems))
	}
	return first
}

// checkNumbers refuses raw if a number in it, at any depth, fails CheckNumber.
func (c *checker) checkNumbers(raw []byte) *fault {
	err := jsonx.Numbers(raw, func(number []byte) error {
		if !ordinary(number) {
			c.bad = CheckNumber(json.Number(number))
			return errStop
		}
		return nil
	})
	if err != nil {
		return c.anyFault()
	}
	return nil
}

// ordinary is [CheckNumber] for bytes.
func ordinary(number []byte) bool {
	if len(number) <= maxDigits && !bytes.ContainsAny(number, "eE") {
		return true
	}
	return CheckNumber(json.Number(number)) == nil
}
