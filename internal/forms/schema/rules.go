package schema

import (
	"math"
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
	root := &ruleNode{}
	s := root.setType(r.Type)
	switch r.Type {
	case "array":
		s.MinItems, s.MaxItems = r.MinSize, r.MaxSize
		root.setItems(r.Values)
	case "string":
		s.MinLength, s.MaxLength = r.MinSize, r.MaxSize
		s.Enum, s.Format = newEnum(r.Values), newFormat(r.Format)
	default:
		s.Minimum, s.Maximum = r.Minimum, r.Maximum
	}
	root.deriveRules()
	root.schema = Schema{root: &root.node, plan: &root.plan, maxSteps: defaultMaxSteps}
	return &root.schema
}

// A ruleNode is a subschema in all the shapes that validation needs, in one piece of memory: a form
// is often made for a single answer.
type ruleNode struct {
	keywords jsonschema.Schema
	types    jsonschema.Types
	node     node
	plan     plan
	schema   Schema // of the root
}

// setType gives n a type. It returns the keywords, to which more may be added before finish.
func (n *ruleNode) setType(typ string) *jsonschema.Schema {
	n.types.Add(typ)
	n.keywords.DraftVersion, n.keywords.Types = 2020, &n.types
	n.node.keywords, n.node.fixed = &n.keywords, 1
	n.node.setTypes(typ)
	n.plan = newPlan(&n.node)
	return &n.keywords
}

// setItems makes the items of an array strings, which must be among values.
func (n *ruleNode) setItems(values []string) {
	items := &ruleNode{}
	items.setType("string").Enum = newEnum(values)
	items.deriveRules()
	n.keywords.Items2020, n.node.items, n.plan.items = &items.keywords, &items.node, &items.plan
}

// deriveRules derives node and plan from the keywords. The plan knows all keywords that rules can
// have; bounds for which it has no fast check are left to the node.
func (n *ruleNode) deriveRules() {
	s := &n.keywords
	n.node.setValueRules()
	setSteps(&n.node, s)
	n.plan.hard = !n.plan.setStrings(s) || !n.plan.setNumbers(s)
	n.plan.minItems, n.plan.maxItems = orElse(s.MinItems, 0), orElse(s.MaxItems, math.MaxInt)
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
