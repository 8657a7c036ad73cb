package schema

import "github.com/rondo-mcp/rondo/internal/wire/jsonx"

// A plan is a node prepared for checking the bytes of a document without decoding them. It supports
// the keywords that most schemas of arguments and answers use. That a plan accepts a value is
// final. That it does not accept a scalar only means that the scalar is decoded and the evaluator
// decides; values of subschemas with other keywords are always decoded. So a plan need not
// implement a keyword that is hard to get exactly right.
type plan struct {
	node  *node
	hard  bool // has keywords that plans do not support: decode the value, whatever it is
	never bool // no value matches

	types   kinds // 0: any
	whole   bool  // numbers must be integers
	enums   kinds // the kinds of the values of an enumeration or a constant; 0: there is none
	all     []*plan
	strings *stringPlan // nil: any string
	numbers *numberPlan // nil: any number

	properties []property
	byName     map[string]int // nil for few, which are searched in order
	required   int            // how many of properties are required
	other      *plan          // of members that have no property; nil: anything
	closed     bool           // members that have no property are not allowed
	looksIn    bool           // each member has to be checked
	minMembers int
	maxMembers int

	items    *plan // nil: anything
	minItems int
	maxItems int
}

type property struct {
	name     string
	plan     *plan // nil: anything
	declared bool  // among the properties and not merely required
	required bool
}

type stringPlan struct {
	values           map[string]struct{} // nil: any; other kinds of value are left to the validator
	minimum, maximum int
	pattern          *pattern
	format           string
}

// numberPlan bounds plainly spelled integers; other numbers are left to the validator.
type numberPlan struct{ minimum, maximum int64 }

// kinds is a set of kinds of value.
type kinds uint8

func setOf(k jsonx.Kind) kinds {
	switch k {
	case jsonx.Null:
		return 1
	case jsonx.Bool:
		return 2
	case jsonx.Number:
		return 4
	case jsonx.String:
		return 8
	case jsonx.Array:
		return 16
	case jsonx.Object:
		return 32
	}
	return 0
}

// findProperty returns the property of that name, nil if there is none.
func (p *plan) findProperty(name []byte) *property {
	if p.byName != nil {
		if i, ok := p.byName[string(name)]; ok {
			return &p.properties[i]
		}
		return nil
	}
	for i := range p.properties {
		if p.properties[i].name == string(name) {
			return &p.properties[i]
		}
	}
	return nil
}
