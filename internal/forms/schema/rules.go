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
	rules := &ruleSchema{Schema: Schema{flat: true, maxSteps: defaultMaxSteps}}
	root := rules.setType(r.Type)
	rules.root = root
	values := root
	switch r.Type {
	case "array":
		root.MinItems, root.MaxItems = r.MinSize, r.MaxSize
		values = (&ruleSchema{}).setType("string")
		root.Items2020 = values
	case "string":
		root.MinLength, root.MaxLength = r.MinSize, r.MaxSize
		root.Format = newFormat(r.Format)
	default:
		root.Minimum, root.Maximum = r.Minimum, r.Maximum
	}
	if r.Values != nil {
		list := make([]any, len(r.Values))
		for i, value := range r.Values {
			list[i] = value
		}
		values.Enum = &jsonschema.Enum{Values: list}
		rules.sets = valueSets{values.Enum: newValueSet(list)}
	}
	return &rules.Schema
}

// A ruleSchema is all that a schema needs in one piece of memory: a form is often made for a single
// answer.
type ruleSchema struct {
	Schema
	keywords jsonschema.Schema
	types    jsonschema.Types
}

func (r *ruleSchema) setType(typ string) *jsonschema.Schema {
	r.types.Add(typ)
	r.keywords.DraftVersion, r.keywords.Types = 2020, &r.types
	return &r.keywords
}
