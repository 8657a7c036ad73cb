package schema

import (
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fewProperties is up to how many properties a search in order beats a map.
const fewProperties = 8

// planner makes the plans of one schema.
type planner struct {
	nodes map[*jsonschema.Schema]*node
	plans map[*jsonschema.Schema]*plan
}

// planFor returns the plan of s, nil for nil.
func (b *planner) planFor(s *jsonschema.Schema) *plan {
	if s == nil {
		return nil
	}
	if p, ok := b.plans[s]; ok {
		return p
	}
	p := &plan{}
	*p = newPlan(b.nodes[s])
	b.plans[s] = p
	p.never = s.Bool != nil && !*s.Bool
	p.hard = !understood(s) || !p.setStrings(s) || !p.setNumbers(s) ||
		!b.setInPlace(p, s) || !b.setObject(p, s) || !b.setArray(p, s)
	return p
}

// newPlan returns the plan of a node that has types and no other keyword.
func newPlan(n *node) plan {
	return plan{
		node: n, types: n.types, whole: n.whole,
		maxMembers: math.MaxInt, maxItems: math.MaxInt,
	}
}

// understood reports whether a subschema has only keywords that plans support, and annotations.
func understood(s *jsonschema.Schema) bool {
	for name := range keywordsOf(s) {
		switch name {
		case "Bool", "Types", "Enum", "Const", "Ref", "AllOf", "Format",
			"MaxProperties", "MinProperties", "Required", "Properties", "AdditionalProperties",
			"MinItems", "MaxItems", "Items", "Items2020", "MinLength", "MaxLength", "Pattern",
			"Maximum", "Minimum", "ExclusiveMaximum", "ExclusiveMinimum":
		case "DraftVersion", "Location", "ID", "Anchor", "Title", "Description", "Default",
			"Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated":
		default:
			return false
		}
	}
	return true
}

func (p *plan) setStrings(s *jsonschema.Schema) bool {
	p.enums = 0
	limits := stringPlan{minimum: orElse(s.MinLength, 0), maximum: orElse(s.MaxLength, math.MaxInt)}
	if s.Enum != nil || s.Const != nil {
		limits.values = map[string]struct{}{}
	}
	switch {
	case s.Enum != nil && s.Const != nil:
		return false
	case s.Enum != nil:
		for _, value := range s.Enum.Values {
			p.enums |= setOf(kindOf(value))
			if text, ok := value.(string); ok {
				limits.values[text] = struct{}{}
			}
		}
		if p.enums == 0 { // no value at all, which means here that any will do
			return false
		}
	case s.Const != nil:
		p.enums |= setOf(kindOf(*s.Const))
		if text, ok := (*s.Const).(string); ok {
			limits.values[text] = struct{}{}
		}
	}
	if s.Pattern != nil {
		ok := false
		if limits.pattern, ok = s.Pattern.(*pattern); !ok {
			return false
		}
	}
	if s.Format != nil {
		switch limits.format = s.Format.Name; limits.format {
		case "email", "uri", "date", "date-time": // the ones of CheckFormat
		default:
			return false
		}
	}
	if limits.values != nil || limits.pattern != nil || limits.format != "" || s.MinLength != nil ||
		s.MaxLength != nil {
		kept := limits // so that limits need not be allocated where there are none
		p.strings = &kept
	}
	return true
}

// maxBound is the largest bound that a plan supports. Adding one to it cannot overflow.
const maxBound = 1 << 62

func (p *plan) setNumbers(s *jsonschema.Schema) bool {
	limits, limited := numberPlan{minimum: math.MinInt64, maximum: math.MaxInt64}, false
	for _, b := range []struct {
		bound        *big.Rat
		lower, outer bool // a lower bound; one that is itself excluded
	}{
		{s.Minimum, true, false}, {s.ExclusiveMinimum, true, true},
		{s.Maximum, false, false}, {s.ExclusiveMaximum, false, true},
	} {
		if b.bound == nil {
			continue
		}
		limited = true
		if !b.bound.IsInt() || !b.bound.Num().IsInt64() {
			return false
		}
		n, step := b.bound.Num().Int64(), int64(0)
		if n > maxBound || n < -maxBound {
			return false
		}
		if b.outer {
			step = 1
		}
		if b.lower {
			limits.minimum = max(limits.minimum, n+step)
		} else {
			limits.maximum = min(limits.maximum, n-step)
		}
	}
	if limited {
		kept := limits
		p.numbers = &kept
	}
	return true
}

func (b *planner) setInPlace(p *plan, s *jsonschema.Schema) bool {
	if s.Ref != nil {
		if s.DraftVersion < 2019 { // the keywords beside it would not count
			return false
		}
		p.all = append(p.all, b.planFor(s.Ref))
	}
	for _, sub := range s.AllOf {
		p.all = append(p.all, b.planFor(sub))
	}
	return true
}

func (b *planner) setObject(p *plan, s *jsonschema.Schema) bool {
	p.minMembers, p.maxMembers = orElse(s.MinProperties, 0), orElse(s.MaxProperties, math.MaxInt)
	at := make(map[string]int, len(s.Properties)+len(s.Required))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		at[name] = len(p.properties)
		p.properties = append(p.properties,
			property{name: name, plan: b.planFor(s.Properties[name]), declared: true})
	}
	for _, name := range s.Required {
		i, ok := at[name]
		if !ok {
			i = len(p.properties)
			at[name] = i
			p.properties = append(p.properties, property{name: name})
		}
		if !p.properties[i].required {
			p.properties[i].required = true
			p.required++
		}
	}
	switch additional := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		p.closed = !additional
	case *jsonschema.Schema:
		p.other = b.planFor(additional)
	default:
		return false
	}
	if len(p.properties) > fewProperties {
		p.byName = at
	}
	p.looksIn = len(p.properties) > 0 || p.other != nil || p.closed
	return true
}

func (b *planner) setArray(p *plan, s *jsonschema.Schema) bool {
	p.minItems, p.maxItems = orElse(s.MinItems, 0), orElse(s.MaxItems, math.MaxInt)
	p.items = b.planFor(s.Items2020)
	switch items := s.Items.(type) { // before 2020-12
	case nil:
	case *jsonschema.Schema:
		p.items = b.planFor(items)
	default: // a list, for the first of the array's items
		return false
	}
	return true
}

func orElse(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}
