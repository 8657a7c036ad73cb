package schema

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

// A fault is one broken rule. Only the fault that is reported becomes an [Error] with text.
type fault struct {
	path     []step // from the value that was checked to the offending one, innermost first
	rule     rule
	keywords *jsonschema.Schema // the subschema with the rule
	subject  string             // the type of the value, or the name of a member or dependency
	err      error              // of a format
}

// A step leads into an array by index, or into an object by name, in which case the index is
// negative.
type step struct {
	name  string
	index int
}

func member(name string) step { return step{name: name, index: -1} }

// prependStep puts a step in front of the path.
func (f *fault) prependStep(s step) { f.path = append(f.path, s) }

// rule is a keyword that a value can break.
type rule byte

const (
	ruleNone rule = iota
	ruleFalse
	ruleType
	ruleConst
	ruleEnum
	ruleFormat
	ruleMinProperties
	ruleMaxProperties
	ruleRequired
	ruleDependency
	ruleAdditionalProperties
	rulePropertyNames
	ruleMinItems
	ruleMaxItems
	ruleUniqueItems
	ruleAdditionalItems
	ruleContains
	ruleMaxContains
	ruleMinLength
	ruleMaxLength
	rulePattern
	ruleMinimum
	ruleMaximum
	ruleExclusiveMinimum
	ruleExclusiveMaximum
	ruleMultipleOf
	ruleNot
	ruleAnyOf
	ruleOneOf
)

// toError returns the error with the text of the fault.
func (f *fault) toError() *Error {
	_, _, reason := describe(f.errorKind())
	var b strings.Builder
	for i := len(f.path) - 1; i >= 0 && b.Len() <= maxField; i-- {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		if s := f.path[i]; s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			b.WriteString(s.name)
		}
	}
	return &Error{Field: errtext.Mark(b.String(), maxField), Reason: reason}
}

// errorKind returns the compiler's name for the fault, which [describe] words.
func (f *fault) errorKind() jsonschema.ErrorKind {
	s := f.keywords
	switch f.rule {
	case ruleFalse:
		return &kind.FalseSchema{}
	case ruleType:
		return &kind.Type{Got: f.subject, Want: s.Types.ToStrings()}
	case ruleConst:
		return &kind.Const{}
	case ruleEnum:
		return &kind.Enum{Want: s.Enum.Values}
	case ruleFormat:
		return &kind.Format{Want: s.Format.Name, Err: f.err}
	case ruleNot:
		return &kind.Not{}
	case ruleAnyOf:
		return &kind.AnyOf{}
	case ruleOneOf:
		return &kind.OneOf{}
	case ruleMinLength:
		return &kind.MinLength{Want: *s.MinLength}
	case ruleMaxLength:
		return &kind.MaxLength{Want: *s.MaxLength}
	case rulePattern:
		return &kind.Pattern{Want: s.Pattern.String()}
	case ruleMinimum:
		return &kind.Minimum{Want: s.Minimum}
	case ruleMaximum:
		return &kind.Maximum{Want: s.Maximum}
	case ruleExclusiveMinimum:
		return &kind.ExclusiveMinimum{Want: s.ExclusiveMinimum}
	case ruleExclusiveMaximum:
		return &kind.ExclusiveMaximum{Want: s.ExclusiveMaximum}
	case ruleMultipleOf:
		return &kind.MultipleOf{Want: s.MultipleOf}
	}
	return f.containerErrorKind()
}

// containerErrorKind is [fault.errorKind] for the rules of objects and arrays.
func (f *fault) containerErrorKind() jsonschema.ErrorKind {
	s := f.keywords
	switch f.rule {
	case ruleMinProperties:
		return &kind.MinProperties{Want: *s.MinProperties}
	case ruleMaxProperties:
		return &kind.MaxProperties{Want: *s.MaxProperties}
	case ruleRequired:
		return &kind.Required{Missing: []string{""}} // the path names it
	case ruleDependency:
		return &kind.DependentRequired{Prop: f.subject, Missing: []string{""}}
	case ruleAdditionalProperties:
		return &kind.AdditionalProperties{Properties: []string{""}}
	case rulePropertyNames:
		return &kind.PropertyNames{}
	case ruleMinItems:
		return &kind.MinItems{Want: *s.MinItems}
	case ruleMaxItems:
		return &kind.MaxItems{Want: *s.MaxItems}
	case ruleUniqueItems:
		return &kind.UniqueItems{}
	case ruleAdditionalItems:
		count, _ := strconv.Atoi(f.subject)
		return &kind.AdditionalItems{Count: count}
	case ruleContains:
		return &kind.Contains{}
	case ruleMaxContains:
		return &kind.MaxContains{}
	}
	return &kind.Group{}
}

// firstOf returns the fault that is reported when there are two: the first by path, then by rank
// and text, so that the result does not depend on the order of a map. Either may be nil.
func firstOf(a, b *fault) *fault {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	i, j := len(a.path)-1, len(b.path)-1
	for ; i >= 0 && j >= 0; i, j = i-1, j-1 {
		s, t := a.path[i], b.path[j]
		if c := cmp.Or(cmp.Compare(s.index, t.index), strings.Compare(s.name, t.name)); c < 0 {
			return a
		} else if c > 0 {
			return b
		}
	}
	if i != j { // one is about a value, the other about something within it
		if i < j {
			return a
		}
		return b
	}
	_, rankA, reasonA := describe(a.errorKind())
	_, rankB, reasonB := describe(b.errorKind())
	if cmp.Or(rankA-rankB, strings.Compare(reasonA, reasonB)) <= 0 {
		return a
	}
	return b
}
