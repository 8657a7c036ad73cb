package schema

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// node is a compiled subschema as far as its cost goes: what evaluating it takes, and which nodes it evaluates
// in turn, on the same value or on the values inside.
type node struct {
	fixed uint64 // steps for any value
	text  uint64 // steps for each 8 bytes of a string

	inPlace []*node // on the same value: $ref, allOf, anyOf, oneOf, not, if, then, else, dependentSchemas

	properties  map[string]*node
	patterns    []*node
	patternText uint64 // steps for each 8 bytes of a member's name
	additional  *node
	leftMembers *node // unevaluatedProperties
	names       *node // propertyNames

	prefix    []*node
	items     *node
	contains  *node
	leftItems *node // unevaluatedItems
	unique    bool

	// found by worst
	state state
	cost  uint64 // fixed and text, with everything in place
	depth int    // of the applicators in place
}

type state byte

const (
	unvisited state = iota
	inProgress
	visited
)

// graph collects the nodes of one schema.
type graph struct {
	nodes map[*jsonschema.Schema]*node
	err   error // the first construct that is refused
}

// add returns the node of s and of everything that s reaches.
func (g *graph) add(s *jsonschema.Schema) *node {
	if s == nil {
		return nil
	}
	if n, ok := g.nodes[s]; ok {
		return n
	}
	n := &node{fixed: 1}
	g.nodes[s] = n
	if (s.DynamicRef != nil || s.RecursiveRef != nil) && g.err == nil {
		g.err = errors.New("\"$dynamicRef\" and \"$recursiveRef\" are not supported")
	}
	g.addInPlace(n, s)
	g.addObject(n, s)
	g.addArray(n, s)
	weigh(n, s)
	return n
}

func (g *graph) addInPlace(n *node, s *jsonschema.Schema) {
	single := []*jsonschema.Schema{s.Ref, s.Not, s.If, s.Then, s.Else}
	for _, list := range [][]*jsonschema.Schema{single, s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			if sub != nil {
				n.inPlace = append(n.inPlace, g.add(sub))
			}
		}
	}
	for _, sub := range s.DependentSchemas {
		n.inPlace = append(n.inPlace, g.add(sub))
	}
	for _, dependency := range s.Dependencies {
		if sub, ok := dependency.(*jsonschema.Schema); ok {
			n.inPlace = append(n.inPlace, g.add(sub))
		}
	}
}

func (g *graph) addObject(n *node, s *jsonschema.Schema) {
	if len(s.Properties) > 0 {
		n.properties = make(map[string]*node, len(s.Properties))
		for name, sub := range s.Properties {
			n.properties[name] = g.add(sub)
		}
	}
	for re, sub := range s.PatternProperties {
		n.patterns = append(n.patterns, g.add(sub))
		n.patternText += patternCost(re)
	}
	n.additional = g.addAny(s.AdditionalProperties)
	n.leftMembers = g.add(s.UnevaluatedProperties)
	n.names = g.add(s.PropertyNames)
}

func (g *graph) addArray(n *node, s *jsonschema.Schema) {
	prefix := s.PrefixItems
	n.items = g.add(s.Items2020)
	switch items := s.Items.(type) { // before 2020-12
	case *jsonschema.Schema:
		n.items = g.add(items)
	case []*jsonschema.Schema:
		prefix = items
		n.items = g.addAny(s.AdditionalItems)
	}
	for _, sub := range prefix {
		n.prefix = append(n.prefix, g.add(sub))
	}
	n.contains = g.add(s.Contains)
	n.leftItems = g.add(s.UnevaluatedItems)
	if s.UniqueItems {
		n.unique = true
		s.UniqueItems = false
		s.Extensions = append(s.Extensions, uniqueItems{})
	}
}

// addAny adds what the compiler keeps as nil, a bool or a schema.
func (g *graph) addAny(v any) *node {
	s, _ := v.(*jsonschema.Schema)
	return g.add(s)
}

// weigh sets what n itself costs. A step is about 100 ns; exact arithmetic on a number takes several.
func weigh(n *node, s *jsonschema.Schema) {
	const arithmetic = 8
	for _, bound := range []bool{s.Minimum != nil, s.Maximum != nil, s.ExclusiveMinimum != nil, s.ExclusiveMaximum != nil, s.MultipleOf != nil, s.Types != nil} {
		if bound {
			n.fixed += arithmetic
		}
	}
	if s.Enum != nil {
		eighths := uint64(0)
		for _, v := range s.Enum.Values {
			eighths += comparison(v)
		}
		n.fixed += eighths / 8
	}
	if s.Const != nil {
		n.fixed += comparison(*s.Const) / 8
	}
	members := len(s.Required) + len(s.DependentRequired) + len(s.DependentSchemas) + len(s.Dependencies)
	for _, names := range s.DependentRequired {
		members += len(names)
	}
	n.fixed += uint64(members) / 4
	if s.Format != nil {
		n.fixed += 2
		n.text++
	}
	if s.MinLength != nil || s.MaxLength != nil {
		n.text++
	}
	if s.Pattern != nil {
		n.text += patternCost(s.Pattern)
	}
}

// comparison returns what comparing any value with v takes, in eighths of a step.
func comparison(v any) uint64 {
	switch v := v.(type) {
	case json.Number:
		return 64
	case []any:
		sum := uint64(8)
		for _, item := range v {
			sum += comparison(item)
		}
		return sum
	case map[string]any:
		sum := uint64(8)
		for _, item := range v {
			sum += 1 + comparison(item)
		}
		return sum
	}
	return 1
}

// patternCost returns the steps for 8 bytes of text.
func patternCost(re jsonschema.Regexp) uint64 {
	if p, ok := re.(*pattern); ok {
		return 1 + uint64(p.program)/4
	}
	return maxProgram / 4
}

// check refuses a graph in which a single value could take more than maxCost steps, or in which a node applies to
// the same value again.
func (g *graph) check(maxCost uint64) error {
	if g.err != nil {
		return g.err
	}
	for _, n := range g.nodes {
		if err := n.worst(maxCost); err != nil {
			return err
		}
	}
	return nil
}

// worst finds cost and depth. Each node is worked out once, and no sum goes past maxCost + the cost of one
// node before it is refused, so neither time nor the sums run away.
func (n *node) worst(maxCost uint64) error {
	switch n.state {
	case visited:
		return nil
	case inProgress:
		return errors.New("a reference leads back to itself without going into the value")
	}
	n.state = inProgress
	n.cost = n.fixed + n.text + n.patternText
	for _, sub := range n.inPlace {
		if err := sub.worst(maxCost); err != nil {
			return err
		}
		n.cost += sub.cost
		n.depth = max(n.depth, sub.depth+1)
		if n.cost > maxCost {
			break
		}
	}
	if n.cost > maxCost {
		return fmt.Errorf("checking a single value could take more than %d steps", maxCost)
	}
	if n.depth > maxInPlaceDepth {
		return fmt.Errorf("references and combinations are nested more than %d deep", maxInPlaceDepth)
	}
	n.state = visited
	return nil
}
