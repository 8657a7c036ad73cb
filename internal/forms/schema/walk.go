package schema

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A walker checks one decoded value against a compiled schema. The walker deducts each step from
// its budget first, and stops at the first fault. Members are visited by name, so that the fault
// and the steps do not depend on map order.
type walker struct {
	left    int64     // steps
	sets    valueSets // of the schema
	bounded bool      // see Limits.BoundIntegers
	quiet   int       // depth of choices, in which the fault itself is not needed
	key     []byte    // latest key, see appendKey
	names   []string  // sorted, of all objects being walked
	notes   []step    // evaluated parts of all values being walked
	bare    *fault    // see anyFault
}

// anyFault returns a fault without details, for choices and the end of the budget.
func (w *walker) anyFault() *fault {
	if w.bare == nil {
		w.bare = &fault{}
	}
	return w.bare
}

// refuse returns the fault of a value or its member. In a choice it does not allocate.
func (w *walker) refuse(s *jsonschema.Schema, keyword, detail string, member ...string) *fault {
	if w.quiet > 0 || w.left < 0 {
		return w.anyFault()
	}
	return &fault{schema: s, keyword: keyword, detail: detail, path: slices.Clone(member)}
}

// A step leads into an array by index, or into an object by name if the index is negative.
type step struct {
	name  string
	index int
}

func (s step) String() string {
	if s.index >= 0 {
		return strconv.Itoa(s.index)
	}
	return s.name
}

func (w *walker) evaluateChild(s *jsonschema.Schema, v any, in step) *fault {
	f := w.evaluate(s, v, false)
	if f != nil && f != w.bare {
		f.path = append(f.path, in.String())
	}
	return f
}

// The method matches reports whether v has no fault; it keeps the notes only in that case.
func (w *walker) matches(s *jsonschema.Schema, v any, noted bool) bool {
	before := len(w.notes)
	w.left--
	w.quiet++
	f := w.evaluate(s, v, noted)
	w.quiet--
	if f != nil {
		w.notes = w.notes[:before]
	}
	return f == nil
}

// evaluate returns the first fault of v, or nil: it checks the value, in-place schemas, then parts.
// With noted, w.notes keeps the evaluated parts. s may be nil.
func (w *walker) evaluate(s *jsonschema.Schema, v any, noted bool) *fault {
	if s == nil {
		return nil
	}
	if w.left--; w.left < 0 {
		return w.anyFault()
	}
	if f := w.checkValue(s, v); f != nil {
		return f
	}
	if s.Ref != nil && s.DraftVersion < 2019 { // siblings of $ref are ignored
		return w.evaluate(s.Ref, v, noted)
	}
	before := len(w.notes)
	own := noted || s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	var f *fault
	switch v := v.(type) {
	case string:
		f = w.checkText(s, v)
	case json.Number:
		if s.MultipleOf != nil || s.Minimum != nil || s.Maximum != nil ||
			s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil {
			small, ok := smallInt(v)
			f = w.checkNumber(s, number{v, ok, small})
		}
	case map[string]any:
		f = w.checkSize(s, len(v), s.MinProperties, "minProperties",
			s.MaxProperties, "maxProperties")
	case []any:
		f = w.checkItems(s, v, own)
	}
	if f == nil {
		f = w.checkInPlace(s, v, own)
	}
	if f == nil {
		switch v := v.(type) {
		case map[string]any:
			f = w.checkMembers(s, v, own)
		case []any:
			f = w.checkEachItem(s, v, own)
		}
	}
	if f == nil && own {
		f = w.checkLeft(s, v, w.notes[before:])
	}
	if !noted {
		w.notes = w.notes[:before]
	}
	return f
}

// checkValue applies the rules that end the evaluation of a value.
func (w *walker) checkValue(s *jsonschema.Schema, v any) *fault {
	text, isText := v.(string)
	switch {
	case s.Bool != nil && !*s.Bool:
		return w.refuse(s, "false", "")
	case !w.hasType(s.Types, v):
		return w.refuse(s, "type", kindOf(v).String())
	case s.Const != nil && !w.isAmong(w.sets[s.Const], v):
		return w.refuse(s, "const", "")
	case s.Enum != nil && !w.isAmong(w.sets[s.Enum], v):
		return w.refuse(s, "enum", "")
	case s.Format != nil && isText:
		if w.left -= formatSteps(s.Format.Name, text); w.left < 0 {
			return w.anyFault()
		}
		if err := s.Format.Validate(v); err != nil {
			return w.refuse(s, "format", patternFault(err))
		}
	}
	return nil
}

func (w *walker) hasType(types *jsonschema.Types, v any) bool {
	if hasKind(types, kindOf(v)) {
		return true
	}
	number, ok := v.(json.Number)
	return ok && *types&integerType != 0 && w.isInteger(number)
}

func (w *walker) checkText(s *jsonschema.Schema, text string) *fault {
	if s.MinLength != nil || s.MaxLength != nil {
		w.left -= int64(len(text) / 8)
		n := utf8.RuneCountInString(text)
		if f := w.checkSize(s, n, s.MinLength, "minLength", s.MaxLength, "maxLength"); f != nil {
			return f
		}
	}
	if s.Pattern == nil {
		return nil
	}
	if w.left -= patternSteps(s.Pattern, len(text)); w.left < 0 || s.Pattern.MatchString(text) {
		return nil // the next step ends the walk
	}
	return w.refuse(s, "pattern", "")
}

func (w *walker) checkSize(
	s *jsonschema.Schema, n int, least *int, tooFew string, most *int, tooMany string,
) *fault {
	switch {
	case least != nil && n < *least:
		return w.refuse(s, tooFew, "")
	case most != nil && n > *most:
		return w.refuse(s, tooMany, "")
	}
	return nil
}

func (w *walker) checkItems(s *jsonschema.Schema, items []any, noted bool) *fault {
	w.left -= int64(len(items) / 4)
	f := w.checkSize(s, len(items), s.MinItems, "minItems", s.MaxItems, "maxItems")
	if f != nil {
		return f
	}
	if s.UniqueItems && w.hasDuplicate(items) {
		return w.refuse(s, "uniqueItems", "")
	}
	if prefix, _, none := itemsOf(s); none && len(items) > len(prefix) {
		return w.refuse(s, "additionalItems", strconv.Itoa(len(items)-len(prefix)))
	}
	if s.Contains == nil {
		return nil
	}
	least, most, matched := orElse(s.MinContains, 1), orElse(s.MaxContains, math.MaxInt), 0
	for i, item := range items {
		if w.left < 0 || !noted && matched >= least && (most == math.MaxInt || matched > most) {
			break
		}
		if w.matches(s.Contains, item, false) {
			matched++
			w.note(noted && s.DraftVersion >= 2020, step{index: i})
		}
	}
	return w.checkSize(s, matched, &least, "contains", &most, "maxContains")
}

// itemsOf returns the schemas of the first and other items, and whether other items are forbidden.
func itemsOf(s *jsonschema.Schema) (
	prefix []*jsonschema.Schema, rest *jsonschema.Schema, none bool,
) {
	if s.DraftVersion >= 2020 {
		return s.PrefixItems, s.Items2020, false
	}
	prefix, _ = s.Items.([]*jsonschema.Schema)
	if rest, _ = s.Items.(*jsonschema.Schema); rest == nil {
		rest, _ = s.AdditionalItems.(*jsonschema.Schema)
		none = s.AdditionalItems == false
	}
	return prefix, rest, none
}

// checkInPlace applies subschemas to the same value.
func (w *walker) checkInPlace(s *jsonschema.Schema, v any, noted bool) *fault {
	if f := w.evaluate(s.Ref, v, noted); f != nil {
		return f
	}
	if s.Not != nil && w.matches(s.Not, v, false) {
		return w.refuse(s, "not", "")
	}
	for _, sub := range s.AllOf {
		if f := w.evaluate(sub, v, noted); f != nil {
			return f
		}
	}
	if len(s.AnyOf) > 0 && w.countMatches(s.AnyOf, v, noted, 1) == 0 {
		return w.refuse(s, "anyOf", "")
	}
	if len(s.OneOf) > 0 && w.countMatches(s.OneOf, v, noted, 2) != 1 {
		return w.refuse(s, "oneOf", "")
	}
	if s.If != nil {
		branch := s.Else
		if w.matches(s.If, v, noted) {
			branch = s.Then
		}
		if f := w.evaluate(branch, v, noted); f != nil {
			return f
		}
	}
	if members, ok := v.(map[string]any); ok {
		return w.checkDependencies(s, members, noted)
	}
	return nil
}

// countMatches counts the schemas that v matches, up to enough (all if noted and enough is 1).
func (w *walker) countMatches(list []*jsonschema.Schema, v any, noted bool, enough int) (n int) {
	for _, sub := range list {
		if w.left < 0 || n >= enough && (!noted || enough > 1) {
			break
		}
		if w.matches(sub, v, noted) {
			n++
		}
	}
	return n
}

// checkDependencies applies the rules that depend on present members, by name.
func (w *walker) checkDependencies(
	s *jsonschema.Schema, members map[string]any, noted bool,
) *fault {
	if s.DependentRequired == nil && s.DependentSchemas == nil && s.Dependencies == nil {
		return nil
	}
	w.payForNames(members)
	var names []string
	for name := range members {
		_, list := s.DependentRequired[name]
		_, sub := s.DependentSchemas[name]
		if _, either := s.Dependencies[name]; list || sub || either {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		required, sub := s.DependentRequired[name], s.DependentSchemas[name]
		if required == nil {
			required, _ = s.Dependencies[name].([]string)
		}
		if sub == nil {
			sub, _ = s.Dependencies[name].(*jsonschema.Schema)
		}
		if missing := w.findMissing(required, members); missing != nil {
			return w.refuse(s, "dependentRequired", name, *missing)
		}
		if f := w.evaluate(sub, members, noted); f != nil {
			return f
		}
	}
	return nil
}

func (w *walker) findMissing(names []string, members map[string]any) *string {
	w.left -= int64(len(names) / 4)
	for i := range names {
		if _, ok := members[names[i]]; !ok {
			return &names[i]
		}
	}
	return nil
}

// checkMembers checks the members by name, including missing and disallowed members.
func (w *walker) checkMembers(s *jsonschema.Schema, members map[string]any, noted bool) *fault {
	w.left -= 3
	if w.payForNames(members); w.left < 0 {
		return w.anyFault()
	}
	missing := w.findMissing(s.Required, members)
	base := len(w.names)
	w.collectNames(s, members, noted)
	defer func() { w.names = w.names[:base] }()
	for _, name := range w.names[base:] {
		if missing != nil && *missing < name {
			break
		}
		if f := w.checkMember(s, name, members[name], noted); f != nil {
			return f
		}
	}
	if missing != nil {
		return w.refuse(s, "required", "", *missing)
	}
	return nil
}

func (w *walker) payForNames(members map[string]any) {
	for name := range members {
		if w.left -= 1 + int64(len(name)/64); w.left < 0 {
			return
		}
	}
}

// collectNames adds the members for checkMember to w.names, sorted. Of the disallowed members it
// adds only the first: sorting all would take longer than decoding.
func (w *walker) collectNames(s *jsonschema.Schema, members map[string]any, noted bool) {
	allowed, isBool := s.AdditionalProperties.(bool)
	all := len(s.PatternProperties) > 0 || s.PropertyNames != nil ||
		s.AdditionalProperties != nil && (!isBool || allowed && noted)
	closed := isBool && !allowed
	if !all && !closed && len(s.Properties) == 0 {
		return
	}
	base, hasExtra, extra := len(w.names), false, ""
	for name := range members {
		if _, ok := s.Properties[name]; ok || all {
			w.names = append(w.names, name)
		} else if closed && (!hasExtra || name < extra) {
			hasExtra, extra = true, name
		}
	}
	if hasExtra {
		w.names = append(w.names, extra)
	}
	slices.Sort(w.names[base:])
}

func (w *walker) checkMember(s *jsonschema.Schema, name string, value any, noted bool) *fault {
	in := step{name: name, index: -1}
	sub, covered := s.Properties[name]
	if covered {
		if f := w.evaluateChild(sub, value, in); f != nil {
			return f
		}
	}
	for _, pattern := range w.sortPatterns(s) {
		if w.left -= patternSteps(pattern, len(name)); w.left < 0 {
			return w.anyFault()
		}
		if pattern.MatchString(name) {
			covered = true
			if f := w.evaluateChild(s.PatternProperties[pattern], value, in); f != nil {
				return f
			}
		}
	}
	if !covered {
		covered = s.AdditionalProperties != nil
		switch other := s.AdditionalProperties.(type) {
		case bool:
			if !other {
				return w.refuse(s, "additionalProperties", "", name)
			}
		case *jsonschema.Schema:
			if f := w.evaluateChild(other, value, in); f != nil {
				return f
			}
		}
	}
	w.note(noted && covered, in)
	if s.PropertyNames != nil && !w.matches(s.PropertyNames, name, false) {
		return w.refuse(s, "propertyNames", "", name)
	}
	return nil
}

func (w *walker) sortPatterns(s *jsonschema.Schema) []jsonschema.Regexp {
	if len(s.PatternProperties) == 0 {
		return nil
	}
	w.left -= 3 + 3*int64(len(s.PatternProperties))
	return slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int {
		return strings.Compare(a.String(), b.String())
	})
}

func (w *walker) checkEachItem(s *jsonschema.Schema, items []any, noted bool) *fault {
	prefix, rest, _ := itemsOf(s)
	if rest != nil || s.DraftVersion < 2020 && s.AdditionalItems != nil {
		w.note(noted, everything)
	}
	for i, item := range items {
		sub := rest
		if i < len(prefix) {
			sub = prefix[i]
		}
		if sub == nil {
			break
		}
		w.note(noted, step{index: i})
		if f := w.evaluateChild(sub, item, step{index: i}); f != nil {
			return f
		}
	}
	return nil
}

// checkLeft applies unevaluatedProperties and unevaluatedItems to parts without a note.
func (w *walker) checkLeft(s *jsonschema.Schema, v any, notes []step) *fault {
	members, _ := v.(map[string]any)
	items, isArray := v.([]any)
	left := s.UnevaluatedProperties
	if isArray {
		left = s.UnevaluatedItems
	}
	if left == nil {
		return nil
	}
	w.left -= 5 + 3*int64(len(members)+len(items)+len(notes))
	if w.payForNames(members); w.left < 0 {
		return w.anyFault()
	}
	seen := make(map[step]bool, len(notes))
	for _, in := range notes {
		seen[in] = true
	}
	check := func(in step, value any) *fault {
		if seen[in] || seen[everything] {
			return nil
		}
		return w.evaluateChild(left, value, in)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if f := check(step{name: name, index: -1}, members[name]); f != nil {
			return f
		}
	}
	for i, item := range items {
		if f := check(step{index: i}, item); f != nil {
			return f
		}
	}
	w.note(true, everything)
	return nil
}

var everything = step{index: -2} // all members or items were evaluated

const noteSteps = 3

// note records an evaluated part for unevaluatedProperties and unevaluatedItems.
func (w *walker) note(noted bool, in step) {
	if !noted {
		return
	}
	if w.left -= noteSteps; w.left >= 0 {
		w.notes = append(w.notes, in)
	}
}
