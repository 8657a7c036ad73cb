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

// A walker checks one decoded value against a compiled schema. It deducts each step from its budget
// before it takes the step, and stops at the first fault. Members are visited by name, so that the
// fault and the steps do not depend on the order of a map.
type walker struct {
	left    int64                          // steps
	sets    map[*jsonschema.Enum]*valueSet // of the schema
	bounded bool                           // see Limits.BoundIntegers
	quiet   int                            // how many choices deep: the fault itself does not matter
	key     []byte                         // of the last value that was looked for, see appendKey
	names   []string                       // of the objects that the walk is in, each sorted
}

// anyFault is a fault without details, for choices and for the end of the budget.
var anyFault = &fault{}

// refuse returns the fault that v, or the member of v that is named, breaks the keyword of s. Within
// a choice it takes no memory.
func (w *walker) refuse(s *jsonschema.Schema, keyword, detail string, member ...string) *fault {
	if w.quiet > 0 || w.left < 0 {
		return anyFault
	}
	return &fault{schema: s, keyword: keyword, detail: detail, path: slices.Clone(member)}
}

// A step leads into an array by index, or into an object by name, when the index is negative.
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

// evaluateChild checks a value inside of another.
func (w *walker) evaluateChild(s *jsonschema.Schema, v any, in step) *fault {
	f := w.evaluate(s, v, nil)
	if f != nil && f != anyFault {
		f.path = append(f.path, in.String())
	}
	return f
}

// matches reports whether v has no fault. What it evaluated counts only then.
func (w *walker) matches(s *jsonschema.Schema, v any, seen *evaluated) bool {
	var branch *evaluated
	if seen != nil {
		branch = &evaluated{}
	}
	w.left--
	w.quiet++
	f := w.evaluate(s, v, branch)
	w.quiet--
	if f == nil {
		w.addAll(seen, branch)
	}
	return f == nil
}

// evaluate returns the first fault of v, nil if there is none: of the value itself, then of the
// schemas for the same value, then of what is in the value. seen, which may be nil, receives what
// of v was evaluated.
func (w *walker) evaluate(s *jsonschema.Schema, v any, seen *evaluated) *fault {
	if w.left--; w.left < 0 {
		return anyFault
	}
	if f := w.checkValue(s, v); f != nil {
		return f
	}
	if s.Ref != nil && s.DraftVersion < 2019 { // the keywords beside it do not count
		return w.evaluate(s.Ref, v, seen)
	}
	own := seen
	if s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil {
		own = &evaluated{}
	}
	var f *fault
	switch v := v.(type) {
	case string:
		f = w.checkText(s, v)
	case json.Number:
		f = w.checkNumber(s, newNumber(v))
	case map[string]any:
		f = w.checkSize(s, len(v), s.MinProperties, "minProperties", s.MaxProperties, "maxProperties")
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
	if f == nil && own != seen {
		f = w.checkLeft(s, v, own)
		w.addAll(seen, own)
	}
	return f
}

// checkValue applies the rules after which nothing else is looked at.
func (w *walker) checkValue(s *jsonschema.Schema, v any) *fault {
	text, isText := v.(string)
	switch {
	case s.Bool != nil && !*s.Bool:
		return w.refuse(s, "false", "")
	case !w.hasType(s.Types, v):
		return w.refuse(s, "type", kindOf(v).String())
	case s.Const != nil && !w.areEqual(v, *s.Const):
		return w.refuse(s, "const", "")
	case s.Enum != nil && !w.isAmong(w.sets[s.Enum], v):
		return w.refuse(s, "enum", "")
	case s.Format != nil && isText:
		if w.left -= formatSteps(s.Format.Name, text); w.left < 0 {
			return anyFault
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

// checkSize applies bounds, nil for none, to how many characters, members or items there are.
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

func (w *walker) checkItems(s *jsonschema.Schema, items []any, own *evaluated) *fault {
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
		if w.left < 0 || own == nil && matched >= least && (most == math.MaxInt || matched > most) {
			break
		}
		if w.matches(s.Contains, item, nil) {
			matched++
			if s.DraftVersion >= 2020 {
				w.note(own, step{index: i})
			}
		}
	}
	return w.checkSize(s, matched, &least, "contains", &most, "maxContains")
}

// itemsOf returns the schemas of the first items and that of the others, nil for any, and whether
// there may be no others.
func itemsOf(s *jsonschema.Schema) (prefix []*jsonschema.Schema, rest *jsonschema.Schema, none bool) {
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

// checkInPlace applies the subschemas that are about the same value.
func (w *walker) checkInPlace(s *jsonschema.Schema, v any, own *evaluated) *fault {
	if s.Ref != nil {
		if f := w.evaluate(s.Ref, v, own); f != nil {
			return f
		}
	}
	if s.Not != nil && w.matches(s.Not, v, nil) {
		return w.refuse(s, "not", "")
	}
	for _, sub := range s.AllOf {
		if f := w.evaluate(sub, v, own); f != nil {
			return f
		}
	}
	if len(s.AnyOf) > 0 && w.countMatches(s.AnyOf, v, own, 1) == 0 {
		return w.refuse(s, "anyOf", "")
	}
	if len(s.OneOf) > 0 && w.countMatches(s.OneOf, v, own, 2) != 1 {
		return w.refuse(s, "oneOf", "")
	}
	if s.If != nil {
		branch := s.Else
		if w.matches(s.If, v, own) {
			branch = s.Then
		}
		if branch != nil {
			if f := w.evaluate(branch, v, own); f != nil {
				return f
			}
		}
	}
	members, ok := v.(map[string]any)
	if !ok || s.DependentRequired == nil && s.DependentSchemas == nil && s.Dependencies == nil {
		return nil
	}
	return w.checkDependencies(s, members, own)
}

// countMatches counts the schemas that v matches, no further than to enough. All are tried for the
// first if somebody asks what they evaluated.
func (w *walker) countMatches(
	list []*jsonschema.Schema, v any, own *evaluated, enough int,
) (matched int) {
	for _, sub := range list {
		if w.left < 0 || matched >= enough && (own == nil || enough > 1) {
			break
		}
		if w.matches(sub, v, own) {
			matched++
		}
	}
	return matched
}

// checkDependencies applies, by name, what has to hold where a member is.
func (w *walker) checkDependencies(
	s *jsonschema.Schema, members map[string]any, own *evaluated,
) *fault {
	names := slices.Sorted(maps.Keys(s.DependentRequired))
	names = append(names, slices.Sorted(maps.Keys(s.DependentSchemas))...)
	names = append(names, slices.Sorted(maps.Keys(s.Dependencies))...)
	for _, name := range names {
		if _, ok := members[name]; !ok {
			continue
		}
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
		if sub != nil {
			if f := w.evaluate(sub, members, own); f != nil {
				return f
			}
		}
	}
	return nil
}

// findMissing returns the first name that no member has, nil if there is none.
func (w *walker) findMissing(names []string, members map[string]any) *string {
	w.left -= int64(len(names) / 4)
	for i := range names {
		if _, ok := members[names[i]]; !ok {
			return &names[i]
		}
	}
	return nil
}

// checkMembers goes by name over the members for which there is a schema. A required member that is
// missing, and one that is not allowed, has its place among them.
func (w *walker) checkMembers(s *jsonschema.Schema, members map[string]any, own *evaluated) *fault {
	w.left -= 3 + int64(len(members))
	missing := w.findMissing(s.Required, members)
	base := len(w.names)
	extra := w.collectNames(s, members, own != nil)
	names := w.names[base:]
	var f *fault
	for _, name := range names {
		if f != nil || missing != nil && *missing < name || extra != nil && *extra < name {
			break
		}
		f = w.checkMember(s, name, members[name], own)
	}
	w.names = w.names[:base]
	switch {
	case f != nil:
		return f
	case missing != nil && (extra == nil || *missing < *extra):
		return w.refuse(s, "required", "", *missing)
	case extra != nil:
		return w.refuse(s, "additionalProperties", "", *extra)
	}
	return nil
}

// collectNames puts on w.names, sorted, the members that checkMember has to see. If the schema
// allows no others, it returns the first of them by name: to sort them all would take longer than
// decoding them did.
func (w *walker) collectNames(
	s *jsonschema.Schema, members map[string]any, noted bool,
) (extra *string) {
	allowed, isBool := s.AdditionalProperties.(bool)
	all := len(s.PatternProperties) > 0 || s.PropertyNames != nil ||
		s.AdditionalProperties != nil && (!isBool || allowed && noted)
	closed := isBool && !allowed && !all
	if !all && !closed && len(s.Properties) == 0 {
		return nil
	}
	base, first := len(w.names), ""
	for name := range members {
		if _, ok := s.Properties[name]; ok || all {
			w.names = append(w.names, name)
		} else if closed && (extra == nil || name < first) {
			first, extra = name, &first
		}
	}
	slices.Sort(w.names[base:])
	return extra
}

func (w *walker) checkMember(
	s *jsonschema.Schema, name string, value any, own *evaluated,
) *fault {
	in := step{name: name, index: -1}
	sub, covered := s.Properties[name]
	if covered {
		if f := w.evaluateChild(sub, value, in); f != nil {
			return f
		}
	}
	for _, pattern := range w.sortPatterns(s) {
		if w.left -= patternSteps(pattern, len(name)); w.left < 0 {
			return anyFault
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
	if covered {
		w.note(own, in)
	}
	if s.PropertyNames != nil && !w.matches(s.PropertyNames, name, nil) {
		return w.refuse(s, "propertyNames", "", name)
	}
	return nil
}

// sortPatterns returns the patterns of the names of members.
func (w *walker) sortPatterns(s *jsonschema.Schema) []jsonschema.Regexp {
	if len(s.PatternProperties) == 0 {
		return nil
	}
	w.left -= 3 + 3*int64(len(s.PatternProperties))
	return slices.SortedFunc(maps.Keys(s.PatternProperties), func(a, b jsonschema.Regexp) int {
		return strings.Compare(a.String(), b.String())
	})
}

func (w *walker) checkEachItem(s *jsonschema.Schema, items []any, own *evaluated) *fault {
	prefix, rest, _ := itemsOf(s)
	if own != nil {
		own.first = max(own.first, len(prefix))
		own.all = own.all || rest != nil || s.DraftVersion < 2020 && s.AdditionalItems != nil
	}
	for i, item := range items {
		sub := rest
		if i < len(prefix) {
			sub = prefix[i]
		}
		if sub == nil {
			break
		}
		if f := w.evaluateChild(sub, item, step{index: i}); f != nil {
			return f
		}
	}
	return nil
}

// checkLeft applies unevaluatedProperties and unevaluatedItems.
func (w *walker) checkLeft(s *jsonschema.Schema, v any, own *evaluated) *fault {
	members, _ := v.(map[string]any)
	items, isArray := v.([]any)
	left := s.UnevaluatedProperties
	if isArray {
		left = s.UnevaluatedItems
	}
	if left == nil {
		return nil
	}
	w.left -= int64(len(members) + len(items))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if in := (step{name: name, index: -1}); !own.has(in) {
			if f := w.evaluateChild(left, members[name], in); f != nil {
				return f
			}
		}
	}
	for i, item := range items {
		if in := (step{index: i}); !own.has(in) {
			if f := w.evaluateChild(left, item, in); f != nil {
				return f
			}
		}
	}
	own.all = true
	return nil
}

// evaluated is what of an object or array some subschema was applied to, for unevaluatedProperties
// and unevaluatedItems. Where it is nil, nobody asks.
type evaluated struct {
	steps map[step]struct{}
	first int // so many items from the beginning on
	all   bool
}

// noteSteps is what noting a member or item that was evaluated costs.
const noteSteps = 3

// note adds a member or item to e, which may be nil.
func (w *walker) note(e *evaluated, in step) {
	if e == nil || e.has(in) {
		return
	}
	if w.left -= noteSteps; w.left >= 0 {
		if e.steps == nil {
			e.steps = map[step]struct{}{}
		}
		e.steps[in] = struct{}{}
	}
}

func (e *evaluated) has(in step) bool {
	_, ok := e.steps[in]
	return ok || e.all || in.index >= 0 && in.index < e.first
}

// addAll adds to e, which may be nil, what other has.
func (w *walker) addAll(e, other *evaluated) {
	if e == nil || other == nil {
		return
	}
	e.first, e.all = max(e.first, other.first), e.all || other.all
	for in := range other.steps {
		w.note(e, in)
	}
}
