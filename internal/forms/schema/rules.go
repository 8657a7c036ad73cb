package schema

import (
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Rules are the form grammar's keywords for one field: a schema without a compiler, so that package
// form validates answers with the same code as tools' arguments.
type Rules struct {
	Type             string   // string, integer, number, boolean, or array of strings
	MinSize, MaxSize *int     // characters of a string or items of an array; nil for no limit
	Minimum, Maximum *big.Rat // of a number; nil for no limit
	Format           string   // of a string, for CheckFormat; may be empty
	Values           []string // of a string or of array items; nil for any
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

// A ruleSchema saves allocations: a form is often made for a single answer.
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
