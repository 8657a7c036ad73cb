package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Error says which member of a document breaks which rule. It may hold values of the schema, never
// one of the document.
type Error struct {
	// Field is the path of the first offending member, its steps joined by dots ("items.0.name"),
	// cut at 200 bytes. It is empty when the document itself is at fault.
	Field string
	// Reason is the rule, such as "must be an integer, got string".
	Reason string
}

// Error returns `field "count": must be an integer, got string`, or the reason alone where the
// document itself is at fault.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return "field " + strconv.Quote(e.Field) + ": " + e.Reason
}

// maxField is the longest Field, in bytes. Member names are the peer's, and an error is no place to
// carry them at length.
const maxField = 200

// leaf is one leaf of the compiler's error tree about a schema.
type leaf struct {
	path   []string
	rank   int // as in describe; among the faults of one value the lowest is reported
	reason string
}

// firstFault turns the error tree of the compiler's own check of a schema into the one fault to
// report. It ranges over maps, so its order is random; sorting by path makes the report the same
// every time.
func firstFault(err *jsonschema.ValidationError) *Error {
	var faults []leaf
	collect(err, &faults)
	if len(faults) == 0 {
		return &Error{Reason: "does not match the schema"}
	}
	first := slices.MinFunc(faults, func(a, b leaf) int {
		if c := slices.CompareFunc(a.path, b.path, compareStep); c != 0 {
			return c
		}
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return strings.Compare(a.reason, b.reason)
	})
	field := strings.Join(first.path, ".")
	return &Error{Field: errtext.Mark(field, maxField), Reason: first.reason}
}

// compareStep orders array indexes as numbers and everything else as text.
func compareStep(a, b string) int {
	i, errA := strconv.Atoi(a)
	j, errB := strconv.Atoi(b)
	if errA == nil && errB == nil && i != j {
		return i - j
	}
	return strings.Compare(a, b)
}

// collect gathers the leaves of err. A choice (anyOf, oneOf, contains) is a leaf: which of
// its branches was meant is unknown.
func collect(err *jsonschema.ValidationError, faults *[]leaf) {
	switch err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range err.Causes {
			collect(cause, faults)
		}
	default:
		member, rank, reason := describe(err.ErrorKind)
		path := slices.Clone(err.InstanceLocation)
		if member != "" {
			path = append(path, member)
		}
		*faults = append(*faults, leaf{path, rank, reason})
	}
}

// describe words one fault. member is set where the fault lies with a member of the value rather
// than with the value. Bounds and formats are the schema's and may be quoted, what the document
// holds may not.
func describe(k jsonschema.ErrorKind) (member string, rank int, reason string) {
	switch k := k.(type) {
	case *kind.Required:
		return k.Missing[0], 0, "is required"
	case *kind.Type:
		return "", 0, "must be " + alternatives(k.Want) + ", got " + k.Got
	case *kind.AdditionalProperties:
		return slices.Min(k.Properties), 1, "is not a member the schema allows"
	case *kind.PropertyNames:
		return k.Property, 1, "is not a name the schema allows"
	case *kind.Dependency:
		return k.Missing[0], 1, "is required beside " + quote(k.Prop)
	case *kind.DependentRequired:
		return k.Missing[0], 1, "is required beside " + quote(k.Prop)
	case *kind.FalseSchema:
		return "", 1, "is not allowed"
	case *kind.AnyOf, *kind.OneOf:
		return "", 2, "must match one of the alternatives in the schema"
	case *kind.Not:
		return "", 2, "is excluded by the schema"
	}
	return "", 1, describeValue(k)
}

func describeValue(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Enum:
		return oneOf(k.Want)
	case *kind.Const:
		return "must be the one allowed value"
	case *kind.Format:
		if e, ok := k.Err.(patternError); ok {
			return string(e)
		}
		return "must be a valid " + errtext.Mark(k.Want, 40)
	case *kind.Pattern:
		return "must match the pattern " + quote(k.Want)
	case *kind.MinLength:
		return atLeast(k.Want, "character")
	case *kind.MaxLength:
		return atMost(k.Want, "character")
	case *kind.MinItems:
		return atLeast(k.Want, "item")
	case *kind.MaxItems:
		return atMost(k.Want, "item")
	case *kind.MinProperties:
		return atLeast(k.Want, "member")
	case *kind.MaxProperties:
		return atMost(k.Want, "member")
	case *kind.AdditionalItems:
		return "must not have " + strconv.Itoa(k.Count) + " more items"
	case *kind.UniqueItems:
		return "must not hold the same item twice"
	case *kind.Contains, *kind.MinContains:
		return "must hold more items of the kind the schema asks for"
	case *kind.MaxContains:
		return "must hold fewer items of the kind the schema counts"
	case *kind.Minimum:
		return "must be at least " + errtext.Mark(decimal(k.Want), 40)
	case *kind.Maximum:
		return "must be at most " + errtext.Mark(decimal(k.Want), 40)
	case *kind.ExclusiveMinimum:
		return "must be more than " + errtext.Mark(decimal(k.Want), 40)
	case *kind.ExclusiveMaximum:
		return "must be less than " + errtext.Mark(decimal(k.Want), 40)
	case *kind.MultipleOf:
		return "must be a multiple of " + errtext.Mark(decimal(k.Want), 40)
	}
	return "does not match the schema"
}

// oneOf words an enumeration. It lists nothing if there are arrays or objects among what it would
// list.
func oneOf(values []any) string {
	listed := values[:min(len(values), errtext.MaxValues)]
	if len(listed) == 0 || slices.ContainsFunc(listed, isContainer) {
		return "must be one of the allowed values"
	}
	return "must be one of: " + errtext.Values(len(values), func(i int) string {
		if text, ok := values[i].(string); ok {
			return errtext.Value(text)
		}
		if values[i] == nil {
			return "null"
		}
		return errtext.Mark(fmt.Sprint(values[i]), 40) // a number as it is written, or a boolean
	})
}

func isContainer(v any) bool {
	kind := kindOf(v)
	return kind == jsonx.Array || kind == jsonx.Object
}

func atLeast(n int, noun string) string {
	return "must have at least " + amount(n, noun)
}

func atMost(n int, noun string) string {
	return "must have at most " + amount(n, noun)
}

func amount(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// alternatives words a list of type names: "an integer", "a string or null".
func alternatives(types []string) string {
	var b strings.Builder
	for i, t := range types {
		if i > 0 {
			b.WriteString(" or ")
		}
		switch t {
		case "null":
		case "integer", "object", "array":
			b.WriteString("an ")
		default:
			b.WriteString("a ")
		}
		b.WriteString(t)
	}
	return b.String()
}

// quote quotes a peer's text for an error, cut short.
func quote(s string) string { return strconv.Quote(errtext.Mark(s, 100)) }
