package schema

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

// Error names the member of a document that breaks a rule, but never a value of the document.
type Error struct {
	// Field is the member's path, such as "items.0.name", up to 200 bytes; empty for the whole.
	Field  string
	Reason string // such as "must be an integer, got string"
}

// Error returns `field "count": must be an integer, got string`, or only the reason.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return "field " + strconv.Quote(e.Field) + ": " + e.Reason
}

// A fault is a broken rule. Only the reported one gets a text.
type fault struct {
	schema  *jsonschema.Schema // the subschema with the rule
	keyword string
	detail  string   // such as the type of the value, or the number of extra items
	path    []string // to the value with the fault, innermost first
}

func (f *fault) toError() *Error {
	slices.Reverse(f.path)
	return newError(f.path, f.reason())
}

func newError(path []string, reason string) *Error {
	return &Error{Field: errtext.Mark(strings.Join(path, "."), maxField), Reason: reason}
}

const maxField = 200 // bytes: member names are the peer's

// plainReasons are independent of the schema, by keyword.
var plainReasons = [...][2]string{
	{"false", "is not allowed"},
	{"const", "must be the one allowed value"},
	{"required", "is required"},
	{"additionalProperties", "is not a member the schema allows"},
	{"propertyNames", "is not a name the schema allows"},
	{"uniqueItems", "must not hold the same item twice"},
	{"contains", "must hold more items of the kind the schema asks for"},
	{"maxContains", "must hold fewer items of the kind the schema counts"},
	{"not", "is excluded by the schema"},
	{"anyOf", "must match one of the alternatives in the schema"},
	{"oneOf", "must match one of the alternatives in the schema"},
}

func plainReason(keyword string) string {
	for _, reason := range plainReasons {
		if reason[0] == keyword {
			return reason[1]
		}
	}
	return "is not what the schema allows"
}

// reason may quote the schema's bounds and formats, but not the document.
func (f *fault) reason() string {
	s := f.schema
	switch f.keyword {
	case "type":
		return mustBe(s.Types.ToStrings(), f.detail)
	case "enum":
		return oneOf(s.Enum.Values)
	case "format":
		return cmp.Or(f.detail, validFormat(s.Format.Name))
	case "dependentRequired":
		return "is required beside " + quote(f.detail)
	case "minProperties":
		return atLeast(*s.MinProperties, "member")
	case "maxProperties":
		return atMost(*s.MaxProperties, "member")
	case "minItems":
		return atLeast(*s.MinItems, "item")
	case "maxItems":
		return atMost(*s.MaxItems, "item")
	case "additionalItems":
		return "must not have " + f.detail + " more items"
	case "minLength":
		return atLeast(*s.MinLength, "character")
	case "maxLength":
		return atMost(*s.MaxLength, "character")
	case "pattern":
		return "must match the pattern " + quote(s.Pattern.String())
	case "minimum":
		return "must be at least " + decimal(s.Minimum)
	case "maximum":
		return "must be at most " + decimal(s.Maximum)
	case "exclusiveMinimum":
		return "must be more than " + decimal(s.ExclusiveMinimum)
	case "exclusiveMaximum":
		return "must be less than " + decimal(s.ExclusiveMaximum)
	case "multipleOf":
		return "must be a multiple of " + decimal(s.MultipleOf)
	}
	return plainReason(f.keyword)
}

// patternFault returns the text of a fault of the format regex, "" for others.
func patternFault(err error) string {
	broken, _ := errors.AsType[patternError](err)
	return string(broken)
}

// firstFault picks one fault of a schema from the compiler's error tree. The compiler ranges over
// maps in random order; the first fault by path is always the same.
func firstFault(err *jsonschema.ValidationError) *Error {
	leaves := appendLeaves(nil, err)
	return slices.MinFunc(leaves, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Reason, b.Reason))
	})
}

// appendLeaves appends the faults of err. A union counts as one, as the intended branch is unknown.
func appendLeaves(leaves []*Error, err *jsonschema.ValidationError) []*Error {
	reason := "is not what JSON Schema allows there"
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range err.Causes {
			leaves = appendLeaves(leaves, cause)
		}
		return leaves
	case *kind.Type:
		reason = mustBe(k.Want, k.Got)
	case *kind.Enum:
		reason = oneOf(k.Want)
	case *kind.AnyOf, *kind.UniqueItems:
		reason = plainReason(k.KeywordPath()[0])
	case *kind.Minimum:
		reason = "must be at least " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		reason = "must be more than " + decimal(k.Want)
	case *kind.MinItems:
		reason = atLeast(k.Want, "item")
	case *kind.Format:
		reason = cmp.Or(patternFault(k.Err), validFormat(k.Want))
	}
	return append(leaves, newError(err.InstanceLocation, reason))
}

// oneOf words an enumeration, without listing arrays or objects.
func oneOf(values []any) string {
	listed := values[:min(len(values), errtext.MaxValues)]
	if len(listed) == 0 || slices.ContainsFunc(listed, isNested) {
		return "must be one of the allowed values"
	}
	return "must be one of: " + errtext.Values(len(values), func(i int) string {
		if text, ok := values[i].(string); ok {
			return errtext.Value(text)
		}
		if values[i] == nil {
			return "null"
		}
		return errtext.Mark(fmt.Sprint(values[i]), 40) // a number as spelled, or a boolean
	})
}

func validFormat(name string) string { return "must be a valid " + errtext.Mark(name, 40) }

func atLeast(n int, noun string) string { return "must have at least " + amount(n, noun) }

func atMost(n int, noun string) string { return "must have at most " + amount(n, noun) }

func amount(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

func mustBe(types []string, got string) string {
	words := make([]string, len(types))
	for i, name := range types {
		switch name {
		case "null":
			words[i] = name
		case "integer", "object", "array":
			words[i] = "an " + name
		default:
			words[i] = "a " + name
		}
	}
	return "must be " + strings.Join(words, " or ") + ", got " + got
}

func decimal(r *big.Rat) string {
	digits, _ := r.FloatPrec()
	return errtext.Mark(r.FloatString(digits), 40)
}

// quote quotes and truncates a peer's text for an error.
func quote(s string) string { return strconv.Quote(errtext.Mark(s, 100)) }
