package schema

import (
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Rules are the keywords that the grammar of forms has for one field. They are a schema that needs
// no compiler: package form reads them from struct tags or a strict grammar and validates answers
// with the same code that validates the arguments of tools.
type Rules struct {
	Type             string   // string, integer, number, boolean, or array, whose items are strings
	MinSize, MaxSize *int     // characters of a string or items of an array; nil for no limit
	Minimum, Maximum *big.Rat // of a number; nil for no limit
	Format           string   // of a string, one of those of CheckFormat; empty for none
	Values           []string // of a string, or of each item of an array; nil for any
}

// Compile returns the schema with these rules. Its Raw is nil.
func (r *Rules) Compile() *Schema {
	s := newKeywords(r.Type)
	switch r.Type {
	case "array":
		s.MinItems, s.MaxItems = r.MinSize, r.MaxSize
		s.Items2020 = newKeywords("string")
		s.Items2020.Enum = newEnum(r.Values)
	case "string":
		s.MinLength, s.MaxLength = r.MinSize, r.MaxSize
		s.Enum = newEnum(r.Values)
		s.Format = newFormat(r.Format)
	default:
		s.Minimum, s.Maximum = r.Minimum, r.Maximum
	}
	g := graph{nodes: map[*jsonschema.Schema]*node{}}
	g.add(s) // what one value costs is known to be little, so it is not checked
	return g.newSchema(nil, s, Limits{}.withDefaults())
}

func newKeywords(typ string) *jsonschema.Schema {
	s := &jsonschema.Schema{DraftVersion: 2020, Types: new(jsonschema.Types)}
	s.Types.Add(typ)
	return s
}

func newEnum(values []string) *jsonschema.Enum {
	if values == nil {
		return nil
	}
	list := make([]any, len(values))
	for i, value := range values {
		list[i] = value
	}
	return &jsonschema.Enum{Values: list}
}
