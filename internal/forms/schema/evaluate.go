package schema

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// evaluator checks decoded values against nodes. It deducts the cost of each step from its budget
// before taking the step, takes no step twice, and stops at the first fault of an array or object
// in the order in which faults are reported. So a refusal costs no more than an acceptance, in time
// and memory, and the budget bounds both.
type evaluator struct {
	left   int64 // steps
	quiet  int   // how many choices deep; within a choice it matters only whether there is a fault
	broken bool  // a number cannot be computed with

	bounded bool // see Limits.BoundIntegers

	key []byte // of the last value that was looked for, see appendKey

	unmatched *fault // see anyFault
}

// anyFault returns a fault without details, for choices and for the end of the budget. It is
// allocated when it is needed, so that the evaluator itself can stay on the stack.
func (e *evaluator) anyFault() *fault {
	if e.unmatched == nil {
		e.unmatched = &fault{}
	}
	return e.unmatched
}

const (
	// faultSteps is what noting a fault costs.
	faultSteps = 4
	// noteSteps is what noting a member that was evaluated costs.
	noteSteps = 3
)

// newFault returns a fault of n, or anyFault within a choice.
func (e *evaluator) newFault(n *node, r rule) *fault {
	if e.quiet > 0 {
		return e.anyFault()
	}
	if e.left -= faultSteps; e.left < 0 {
		return e.anyFault()
	}
	return &fault{rule: r, keywords: n.keywords}
}

// newFaultAt is [evaluator.newFault] for a member of the value.
func (e *evaluator) newFaultAt(n *node, r rule, name string) *fault {
	f := e.newFault(n, r)
	e.extendPath(f, member(name))
	return f
}

// extendPath adds a step to a fault's path.
func (e *evaluator) extendPath(f *fault, s step) {
	if f != e.unmatched {
		f.prependStep(s)
	}
}

// matchesNode reports whether v has no fault.
func (e *evaluator) matchesNode(n *node, v any, seen *evaluated) bool {
	e.quiet++
	f := e.evaluateValue(n, v, seen)
	e.quiet--
	return f == nil
}

// isSettled reports whether the search for faults can stop: the budget is used up, or the value has
// a fault f within a choice.
func (e *evaluator) isSettled(f *fault) bool { return e.left < 0 || f != nil && e.quiet > 0 }

// evaluateValue returns the first fault of v, nil if there is none. seen, which may be nil,
// receives what of v was evaluated.
func (e *evaluator) evaluateValue(n *node, v any, seen *evaluated) *fault {
	if e.left -= n.fixed; e.left < 0 {
		return e.anyFault()
	}
	if f := e.checkValue(n, v); f != nil {
		return f
	}
	if n.refAlone {
		return e.evaluateValue(n.ref, v, seen)
	}
	own := seen
	if n.leftMembers != nil || n.leftItems != nil {
		own = &evaluated{}
	}
	first := e.checkKind(n, v, own)
	if !e.isSettled(first) {
		first = firstOf(first, e.checkInPlace(n, v, own))
	}
	if !e.isSettled(first) && (first == nil || len(first.path) > 0) {
		first = firstOf(first, e.checkInside(n, v, own))
	}
	if first == nil && own != seen {
		first = e.checkLeft(n, v, own)
		seen.mergeBranch(own)
	}
	return first
}

// checkValue applies the rules after which nothing else is looked at.
func (e *evaluator) checkValue(n *node, v any) *fault {
	s := n.keywords
	switch {
	case s.Bool != nil && !*s.Bool:
		return e.newFault(n, ruleFalse)
	case n.types != 0 && !e.hasType(n, v):
		f := e.newFault(n, ruleType)
		f.subject = kindName(kindOf(v))
		return f
	case n.constant != nil && !e.isAmong(n.constant, v):
		return e.newFault(n, ruleConst)
	case n.enum != nil && !e.isAmong(n.enum, v):
		return e.newFault(n, ruleEnum)
	case s.Format != nil:
		if text, ok := v.(string); ok {
			e.left -= n.format * int64(1+len(text)/8)
			if n.format == regexSteps && len(text) <= maxPattern {
				e.left -= parseSteps * int64(parseCost(text))
			}
		}
		if e.left < 0 {
			return e.anyFault()
		}
		if err := s.Format.Validate(v); err != nil {
			f := e.newFault(n, ruleFormat)
			f.err = err
			return f
		}
	}
	return nil
}

func (e *evaluator) hasType(n *node, v any) bool {
	kind := kindOf(v)
	if n.types&setOf(kind) == 0 {
		return false
	}
	if kind == jsonx.Number && n.whole {
		return e.isInteger(v.(json.Number))
	}
	return true
}

// checkKind applies the rules for one kind of value that are about the value itself.
func (e *evaluator) checkKind(n *node, v any, own *evaluated) *fault {
	switch v := v.(type) {
	case string:
		return e.checkText(n, v)
	case json.Number:
		return e.checkNumber(n, v)
	case map[string]any:
		return e.checkMembers(n, v)
	case []any:
		return e.checkItems(n, v, own)
	}
	return nil
}

func (e *evaluator) checkText(n *node, text string) *fault {
	s := n.keywords
	if s.MinLength != nil || s.MaxLength != nil {
		e.left -= int64(1 + len(text)/8)
		length := utf8.RuneCountInString(text)
		if s.MinLength != nil && length < *s.MinLength {
			return e.newFault(n, ruleMinLength)
		}
		if s.MaxLength != nil && length > *s.MaxLength {
			return e.newFault(n, ruleMaxLength)
		}
	}
	if s.Pattern != nil {
		if e.left -= patternSteps(s.Pattern, len(text)); e.left < 0 {
			return e.anyFault()
		}
		if !s.Pattern.MatchString(text) {
			return e.newFault(n, rulePattern)
		}
	}
	return nil
}

func (e *evaluator) checkMembers(n *node, members map[string]any) (first *fault) {
	s := n.keywords
	e.left -= int64(len(members))
	if s.MinProperties != nil && len(members) < *s.MinProperties {
		first = firstOf(first, e.newFault(n, ruleMinProperties))
	}
	if s.MaxProperties != nil && len(members) > *s.MaxProperties {
		first = firstOf(first, e.newFault(n, ruleMaxProperties))
	}
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			first = firstOf(first, e.newFaultAt(n, ruleRequired, name))
			break
		}
	}
	for _, d := range n.dependencies {
		if _, ok := members[d.name]; !ok {
			continue
		}
		for _, name := range d.required {
			if _, ok := members[name]; !ok {
				f := e.newFaultAt(n, ruleDependency, name)
				f.subject = d.name
				first = firstOf(first, f)
				break
			}
		}
	}
	return first
}

func (e *evaluator) checkItems(n *node, items []any, own *evaluated) (first *fault) {
	s := n.keywords
	e.left -= int64(len(items))
	if s.MinItems != nil && len(items) < *s.MinItems {
		first = firstOf(first, e.newFault(n, ruleMinItems))
	}
	if s.MaxItems != nil && len(items) > *s.MaxItems {
		first = firstOf(first, e.newFault(n, ruleMaxItems))
	}
	if s.UniqueItems && !e.isSettled(first) {
		if e.payKey(items); e.left < 0 {
			return e.anyFault()
		}
		if hasDuplicate(items) {
			first = firstOf(first, e.newFault(n, ruleUniqueItems))
		}
	}
	if n.itemsEnd && len(items) > len(n.prefix) {
		f := e.newFault(n, ruleAdditionalItems)
		f.subject = strconv.Itoa(len(items) - len(n.prefix))
		first = firstOf(first, f)
	}
	if n.contains != nil && !e.isSettled(first) {
		first = firstOf(first, e.checkContains(n, items, own))
	}
	return first
}

func (e *evaluator) checkContains(n *node, items []any, own *evaluated) *fault {
	s := n.keywords
	least, most := orElse(s.MinContains, 1), orElse(s.MaxContains, math.MaxInt)
	matched := 0
	for i, item := range items {
		if e.left < 0 {
			return e.anyFault()
		}
		if !e.matchesNode(n.contains, item, nil) {
			continue
		}
		matched++
		if s.DraftVersion >= 2020 {
			own.addItem(i)
		}
		if own == nil && matched >= least && (most == math.MaxInt || matched > most) {
			break
		}
	}
	switch {
	case matched > most:
		return e.newFault(n, ruleMaxContains)
	case matched < least:
		return e.newFault(n, ruleContains)
	}
	return nil
}

// checkInPlace applies the subschemas that are about the same value.
func (e *evaluator) checkInPlace(n *node, v any, own *evaluated) (first *fault) {
	if n.ref != nil {
		first = e.evaluateValue(n.ref, v, own)
	}
	if n.not != nil && !e.isSettled(first) && e.matchesNode(n.not, v, nil) {
		first = firstOf(first, e.newFault(n, ruleNot))
	}
	for _, sub := range n.allOf {
		if e.isSettled(first) {
			return first
		}
		first = firstOf(first, e.evaluateValue(sub, v, own))
	}
	if len(n.anyOf) > 0 && !e.isSettled(first) && !e.matchesAny(n, v, own) {
		first = firstOf(first, e.newFault(n, ruleAnyOf))
	}
	if len(n.oneOf) > 0 && !e.isSettled(first) && !e.matchesOne(n, v, own) {
		first = firstOf(first, e.newFault(n, ruleOneOf))
	}
	if n.condition != nil && !e.isSettled(first) {
		branch := n.otherwise
		if e.matchesBranch(n.condition, v, own) {
			branch = n.then
		}
		if branch != nil {
			first = firstOf(first, e.evaluateValue(branch, v, own))
		}
	}
	if members, ok := v.(map[string]any); ok {
		for _, d := range n.dependencies {
			if _, ok := members[d.name]; ok && d.schema != nil && !e.isSettled(first) {
				first = firstOf(first, e.evaluateValue(d.schema, v, own))
			}
		}
	}
	return first
}

// matchesBranch reports whether v matches. What the branch evaluated counts only if it does.
func (e *evaluator) matchesBranch(n *node, v any, own *evaluated) bool {
	branch := own.newBranch()
	if !e.matchesNode(n, v, branch) {
		return false
	}
	own.mergeBranch(branch)
	return true
}

func (e *evaluator) matchesAny(n *node, v any, own *evaluated) bool {
	matched := false
	for _, sub := range n.anyOf {
		if e.left < 0 {
			return false
		}
		matched = e.matchesBranch(sub, v, own) || matched
		if matched && own == nil { // otherwise each says what it evaluated
			break
		}
	}
	return matched
}

func (e *evaluator) matchesOne(n *node, v any, own *evaluated) bool {
	matched := 0
	for _, sub := range n.oneOf {
		if e.left < 0 || matched > 1 {
			return false
		}
		if e.matchesBranch(sub, v, own) {
			matched++
		}
	}
	return matched == 1
}

// checkInside applies the subschemas that are about what is in the value.
func (e *evaluator) checkInside(n *node, v any, own *evaluated) *fault {
	switch v := v.(type) {
	case map[string]any:
		return e.checkEachMember(n, v, own)
	case []any:
		return e.checkEachItem(n, v, own)
	}
	return nil
}

// checkEachMember goes by name, as faults are reported, and stops at the first.
func (e *evaluator) checkEachMember(n *node, members map[string]any, own *evaluated) *fault {
	switch {
	case n.propertiesAlone && len(n.names) <= len(members):
		return e.checkNamed(n, members, n.names, own)
	case n.properties == nil && n.patterns == nil && n.additional == nil &&
		n.nameRules == nil && !n.closed && (!n.open || own == nil):
		return nil
	}
	return e.checkNamed(n, members, slices.Sorted(maps.Keys(members)), own)
}

func (e *evaluator) checkNamed(
	n *node, members map[string]any, names []string, own *evaluated,
) *fault {
	for _, name := range names {
		value, ok := members[name]
		if !ok {
			continue
		}
		if e.left < 0 {
			return e.anyFault()
		}
		if f := e.checkMember(n, name, value, own); f != nil {
			return f
		}
	}
	return nil
}

func (e *evaluator) checkMember(n *node, name string, value any, own *evaluated) (first *fault) {
	covered := false
	if sub := n.properties[name]; sub != nil {
		covered = true
		first = e.evaluateChild(sub, value, member(name))
	}
	for _, p := range n.patterns {
		if e.left -= patternSteps(p.pattern, len(name)); e.isSettled(first) {
			return e.anyFault()
		}
		if p.pattern.MatchString(name) {
			covered = true
			first = firstOf(first, e.evaluateChild(p.schema, value, member(name)))
		}
	}
	switch {
	case covered:
	case n.closed:
		first = e.newFaultAt(n, ruleAdditionalProperties, name)
	case n.additional != nil:
		covered = true
		first = e.evaluateChild(n.additional, value, member(name))
	case n.open:
		covered = true
	}
	if covered && own != nil {
		e.left -= noteSteps
		own.addName(name)
	}
	if n.nameRules != nil && !e.isSettled(first) && !e.matchesNode(n.nameRules, name, nil) {
		first = firstOf(first, e.newFaultAt(n, rulePropertyNames, name))
	}
	return first
}

func (e *evaluator) checkEachItem(n *node, items []any, own *evaluated) *fault {
	own.addItems(len(n.prefix), n.items != nil || n.itemsEnd || n.itemsOpen)
	if len(n.prefix) == 0 && n.items == nil {
		return nil
	}
	for i, item := range items {
		sub := n.items
		if i < len(n.prefix) {
			sub = n.prefix[i]
		}
		if sub == nil {
			break
		}
		if e.left < 0 {
			return e.anyFault()
		}
		if f := e.evaluateChild(sub, item, step{index: i}); f != nil {
			return f
		}
	}
	return nil
}

// checkLeft applies unevaluatedProperties and unevaluatedItems.
func (e *evaluator) checkLeft(n *node, v any, own *evaluated) *fault {
	switch v := v.(type) {
	case map[string]any:
		if n.leftMembers == nil {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !own.hasName(name) {
				if f := e.evaluateChild(n.leftMembers, v[name], member(name)); f != nil {
					return f
				}
			}
		}
		own.allNames = true
	case []any:
		if n.leftItems == nil {
			return nil
		}
		for i, item := range v {
			if !own.hasItem(i) {
				if f := e.evaluateChild(n.leftItems, item, step{index: i}); f != nil {
					return f
				}
			}
		}
		own.allItems = true
	}
	return nil
}

// evaluateChild checks a value inside of another.
func (e *evaluator) evaluateChild(n *node, v any, s step) *fault {
	f := e.evaluateValue(n, v, nil)
	if f != nil {
		e.extendPath(f, s)
	}
	return f
}
