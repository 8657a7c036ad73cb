package form

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/fields"
	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/schema"
)

// kind is what a field holds.
type kind byte

const (
	text    kind = iota // a string
	integer             // a number without a fraction
	number
	boolean
	choice  // one of a list of strings
	choices // some of a list of strings
)

// field is one property of a form.
type field struct {
	name     string
	key      []byte // name as it begins a member: `"name":`
	kind     kind
	required bool

	title       string
	description string

	format           string // "" for none
	minSize, maxSize limit  // characters of a text, items of choices
	minimum, maximum *fields.Number

	values []string
	lookup map[string]struct{} // the values; nil for a short list, which is searched in order
	titles []string            // nil for none, otherwise one for each value

	fallback json.RawMessage // the default; nil for none

	target target
}

// limit is an optional length or count: zero is none, otherwise it is one more than the limit.
type limit int64

func limitOf(n int) limit  { return limit(n) + 1 }
func (l limit) set() bool  { return l > 0 }
func (l limit) value() int { return int(l) - 1 }

// target is the Go type that an answer will be decoded into, where a schema cannot say all that it demands.
type target byte

const (
	anyTarget     target = iota
	int64Target          // 64 bits: JSON integers have no limit
	uint64Target         //
	float32Target        //
	float64Target        //
	timeTarget           // no leap seconds, capital T and Z
)

// check returns the rule that raw, a valid JSON value, breaks, or "". It never repeats the value.
func (f *field) check(raw []byte) (reason string) {
	switch f.kind {
	case text, choice:
		if jsonx.KindOf(raw) != jsonx.String {
			return wrongKind("a string", raw)
		}
		s, err := jsonx.TextBytes(raw)
		if err != nil {
			return "must be a string"
		}
		if f.kind == choice {
			return f.checkChoice(s)
		}
		return f.checkText(s)
	case integer, number:
		if jsonx.KindOf(raw) != jsonx.Number {
			return wrongKind(f.kind.String(), raw)
		}
		return f.checkNumber(string(raw))
	case boolean:
		if jsonx.KindOf(raw) != jsonx.Bool {
			return wrongKind("a boolean", raw)
		}
		return ""
	default:
		return f.checkChoices(raw)
	}
}

func wrongKind(want string, raw []byte) string {
	return "must be " + want + ", got " + jsonx.KindOf(raw).String()
}

// String returns the kind with its article, as error messages use it.
func (k kind) String() string {
	return [...]string{"a string", "an integer", "a number", "a boolean", "a string", "an array of strings"}[k]
}

func (f *field) checkText(s []byte) string {
	if f.minSize.set() || f.maxSize.set() {
		n := utf8.RuneCount(s)
		if f.minSize.set() && n < f.minSize.value() {
			return "must have at least " + count(f.minSize.value(), "character")
		}
		if f.maxSize.set() && n > f.maxSize.value() {
			return "must have at most " + count(f.maxSize.value(), "character")
		}
	}
	if f.format == "" {
		return ""
	}
	if !schema.CheckFormat(f.format, string(s)) {
		return "must be a valid " + f.format
	}
	if f.target == timeTarget {
		if _, err := time.Parse(time.RFC3339, string(s)); err != nil {
			return "must be a date-time that a clock can show"
		}
	}
	return ""
}

func (f *field) checkChoice(s []byte) string {
	if f.lookup != nil {
		if _, ok := f.lookup[string(s)]; ok {
			return ""
		}
		return "must be one of the allowed values"
	}
	for _, value := range f.values {
		if value == string(s) {
			return ""
		}
	}
	return "must be one of the allowed values"
}

// fewValues is up to how many values a search in order beats a map. A longer
// list needs one: an answer may hold a million items, each to be found in it.
const fewValues = 16

// index prepares a long list of values for being searched.
func (f *field) index() {
	if len(f.values) <= fewValues {
		return
	}
	f.lookup = make(map[string]struct{}, len(f.values))
	for _, value := range f.values {
		f.lookup[value] = struct{}{}
	}
}

func (f *field) checkChoices(raw []byte) string {
	if jsonx.KindOf(raw) != jsonx.Array {
		return wrongKind("an array of strings", raw)
	}
	n, reason := 0, ""
	err := jsonx.Elements(raw, func(i int, value []byte) error {
		n = i + 1
		if reason != "" {
			return nil
		}
		if jsonx.KindOf(value) != jsonx.String {
			reason = "must hold strings only, got " + jsonx.KindOf(value).String()
			return nil
		}
		s, err := jsonx.TextBytes(value)
		if err == nil && f.checkChoice(s) != "" {
			reason = "must hold allowed values only"
		}
		return err
	})
	switch {
	case err != nil:
		return "must be an array of strings"
	case reason != "":
		return reason
	case f.minSize.set() && n < f.minSize.value():
		return "must have at least " + count(f.minSize.value(), "item")
	case f.maxSize.set() && n > f.maxSize.value():
		return "must have at most " + count(f.maxSize.value(), "item")
	}
	return ""
}

func (f *field) checkNumber(s string) string {
	if schema.CheckNumber(json.Number(s)) != nil {
		return "is out of range"
	}
	n := fields.NumberText(s)
	if f.kind == integer && !n.IsInteger() {
		return "must be an integer, got number"
	}
	if f.minimum != nil && n.Compare(*f.minimum) < 0 {
		return "must be at least " + f.minimum.String()
	}
	if f.maximum != nil && n.Compare(*f.maximum) > 0 {
		return "must be at most " + f.maximum.String()
	}
	if !f.target.holds(n) {
		return "is out of range"
	}
	return ""
}

// holds reports whether n can be decoded into the target.
func (t target) holds(n fields.Number) bool {
	switch t {
	case int64Target:
		return n.FitsInt64()
	case uint64Target:
		return n.FitsUint64()
	case float32Target:
		return n.FitsFloat(32)
	case float64Target:
		return n.FitsFloat(64)
	}
	return true
}

// appendValue appends raw, which has passed check, the way a Go type reads it: an integer written as 1.0 or 1e3 is an
// integer to JSON Schema but not to a Go decoder. Nor is -0 to one of a type without a sign.
func (f *field) appendValue(dst, raw []byte) []byte {
	if f.rewrites(raw) {
		return append(dst, fields.NumberText(string(raw)).Exact().Num().String()...)
	}
	return append(dst, raw...)
}

// rewrites reports whether [field.appendValue] writes something else than raw.
func (f *field) rewrites(raw []byte) bool {
	return f.kind == integer && (bytes.ContainsAny(raw, ".eE") || f.target == uint64Target && string(raw) == "-0")
}

// selfCheck returns what is wrong with the field's own definition, or "".
func (f *field) selfCheck() string {
	unit := map[bool]string{false: "Length", true: "Items"}[f.kind == choices]
	switch {
	case f.minSize.set() && f.maxSize.set() && f.minSize > f.maxSize:
		return "min" + unit + " is above max" + unit
	case f.minimum != nil && f.maximum != nil && f.minimum.Compare(*f.maximum) > 0:
		return "minimum is above maximum"
	case f.kind != choice && f.kind != choices:
		return ""
	case len(f.values) == 0:
		return "has no values to choose from"
	case f.titles != nil && len(f.titles) != len(f.values):
		return "has " + strconv.Itoa(len(f.titles)) + " titles for " + count(len(f.values), "value")
	}
	sorted := slices.Sorted(slices.Values(f.values))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return "lists the value " + strconv.Quote(sorted[i]) + " twice"
		}
	}
	return ""
}

// secret returns the credential that the field seems to ask for, or "". A boolean or a choice cannot carry one.
func (f *field) secret() string {
	if f.kind == boolean || f.kind == choice || f.kind == choices {
		return ""
	}
	if word := secretIn(f.name); word != "" {
		return word
	}
	return secretIn(f.title)
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
