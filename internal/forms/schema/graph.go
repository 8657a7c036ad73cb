package schema

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// node is a compiled subschema: its keywords, the nodes that it applies to the same value or to the
// values inside, and the steps that this costs.
type node struct {
	keywords *jsonschema.Schema

	fixed  int64 // steps for any value
	number int64 // steps for a number that is not small
	text   int64 // steps for each 8 bytes of a string
	format int64 // of them, those for the format

	inPlace []*node // all on the same value
	ref     *node
	// refAlone: the keywords beside $ref do not count (before 2019-09).
	refAlone                   bool
	not                        *node
	allOf, anyOf, oneOf        []*node
	condition, then, otherwise *node
	dependencies               []dependency // by name

	types          kinds // 0: any
	whole          bool  // numbers must be integers
	constant, enum *valueSet
	bounds         []bound

	properties  map[string]*node
	names       []string // of properties, sorted
	patterns    []patternNode
	patternText int64 // steps for each 8 bytes of a member's name
	additional  *node
	closed      bool  // there may be no other members
	open        bool  // there may be any
	leftMembers *node // unevaluatedProperties
	nameRules   *node // propertyNames
	// propertiesAlone: members that are no properties need not be looked at.
	propertiesAlone bool

	prefix    []*node
	items     *node
	itemsEnd  bool // there may be no more than prefix
	itemsOpen bool // there may be any more
	contains  *node
	leftItems *node // unevaluatedItems

	// found by computeCost
	state state
	cost  int64 // of any kind of value, with everything in place
	depth int   // of the applicators in place
}

// dependency is what has to hold where the member name is.
type dependency struct {
	name     string
	required []string
	schema   *node
}

// patternNode is a member of patternProperties.
type patternNode struct {
	pattern jsonschema.Regexp
	schema  *node
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

// addNode returns the node of s and of everything that s reaches.
func (g *graph) addNode(s *jsonschema.Schema) *node {
	if s == nil {
		return nil
	}
	if n, ok := g.nodes[s]; ok {
		return n
	}
	n := &node{keywords: s, fixed: 1}
	g.nodes[s] = n
	if g.err == nil {
		g.err = checkKeywords(s)
	}
	if s.Types != nil && !s.Types.IsEmpty() {
		n.setTypes(s.Types.ToStrings()...)
	}
	n.setValueRules()
	g.addInPlace(n, s)
	g.addDependencies(n, s)
	g.addObject(n, s)
	g.addArray(n, s)
	setSteps(n, s)
	return n
}

// keywordsOf returns the keywords that a subschema has, by the names of their fields. It looks at
// every field of the compiler's type, so that a keyword which a later version of the compiler adds
// is seen.
func keywordsOf(s *jsonschema.Schema) iter.Seq[string] {
	return func(yield func(string) bool) {
		v := reflect.ValueOf(s).Elem()
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.IsExported() && !v.Field(i).IsZero() && !yield(field.Name) {
				return
			}
		}
	}
}

// checkKeywords refuses a subschema with a keyword that the evaluator does not implement, one that
// it does not know included.
func checkKeywords(s *jsonschema.Schema) error {
	for name := range keywordsOf(s) {
		switch name {
		case "Bool", "Types", "Enum", "Const", "Format", "Ref", "Not", "AllOf", "AnyOf", "OneOf",
			"If", "Then", "Else", "MaxProperties", "MinProperties", "Required", "PropertyNames",
			"Properties", "PatternProperties", "AdditionalProperties", "Dependencies",
			"DependentRequired", "DependentSchemas", "UnevaluatedProperties", "MinItems",
			"MaxItems", "UniqueItems", "Contains", "MinContains", "MaxContains", "Items",
			"AdditionalItems", "PrefixItems", "Items2020", "UnevaluatedItems", "MinLength",
			"MaxLength", "Pattern", "Maximum", "Minimum", "ExclusiveMaximum", "ExclusiveMinimum",
			"MultipleOf":
		case "DraftVersion", "Location", "ID", "Anchor", "DynamicAnchor", "RecursiveAnchor",
			"Title", "Description", "Default", "Comment",
			"ReadOnly", "WriteOnly", "Examples", "Deprecated": // nothing to evaluate
		case "DynamicRef", "RecursiveRef":
			return errors.New("\"$dynamicRef\" and \"$recursiveRef\" are not supported")
		default:
			return fmt.Errorf("has a keyword that is not supported: %s", name)
		}
	}
	return nil
}

func (n *node) setTypes(names ...string) {
	for _, name := range names {
		switch name {
		case "null":
			n.types |= setOf(jsonx.Null)
		case "boolean":
			n.types |= setOf(jsonx.Bool)
		case "number":
			n.types |= setOf(jsonx.Number)
		case "string":
			n.types |= setOf(jsonx.String)
		case "array":
			n.types |= setOf(jsonx.Array)
		case "object":
			n.types |= setOf(jsonx.Object)
		case "integer":
			n.whole = true
		}
	}
	if n.types&setOf(jsonx.Number) != 0 {
		n.whole = false // integers are numbers
	} else if n.whole {
		n.types |= setOf(jsonx.Number)
	}
}

// setValueRules sets what n demands of a value itself, whatever is in it.
func (n *node) setValueRules() {
	s := n.keywords
	if s.Const != nil {
		n.constant = newValueSet([]any{*s.Const})
	}
	if s.Enum != nil {
		n.enum = newValueSet(s.Enum.Values)
	}
	n.addBound(ruleMinimum, s.Minimum)
	n.addBound(ruleMaximum, s.Maximum)
	n.addBound(ruleExclusiveMinimum, s.ExclusiveMinimum)
	n.addBound(ruleExclusiveMaximum, s.ExclusiveMaximum)
	n.addBound(ruleMultipleOf, s.MultipleOf)
}

func (g *graph) addInPlace(n *node, s *jsonschema.Schema) {
	n.ref, n.not = g.addNode(s.Ref), g.addNode(s.Not)
	n.condition, n.then, n.otherwise = g.addNode(s.If), g.addNode(s.Then), g.addNode(s.Else)
	n.refAlone = n.ref != nil && s.DraftVersion < 2019
	for _, sub := range []*node{n.ref, n.not, n.condition, n.then, n.otherwise} {
		if sub != nil {
			n.inPlace = append(n.inPlace, sub)
		}
	}
	n.allOf, n.anyOf, n.oneOf = g.addList(s.AllOf), g.addList(s.AnyOf), g.addList(s.OneOf)
	n.inPlace = append(append(append(n.inPlace, n.allOf...), n.anyOf...), n.oneOf...)
}

func (g *graph) addList(list []*jsonschema.Schema) []*node {
	nodes := make([]*node, 0, len(list))
	for _, sub := range list {
		nodes = append(nodes, g.addNode(sub))
	}
	return nodes
}

func (g *graph) addDependencies(n *node, s *jsonschema.Schema) {
	for name, names := range s.DependentRequired {
		n.dependencies = append(n.dependencies, dependency{name: name, required: names})
	}
	for name, sub := range s.DependentSchemas {
		n.dependencies = append(n.dependencies, dependency{name: name, schema: g.addNode(sub)})
	}
	for name, either := range s.Dependencies {
		switch d := either.(type) {
		case *jsonschema.Schema:
			n.dependencies = append(n.dependencies, dependency{name: name, schema: g.addNode(d)})
		case []string:
			n.dependencies = append(n.dependencies, dependency{name: name, required: d})
		}
	}
	slices.SortFunc(n.dependencies, func(a, b dependency) int {
		return cmp.Or(strings.Compare(a.name, b.name),
			cmp.Compare(len(a.required), len(b.required)))
	})
	for _, d := range n.dependencies {
		if d.schema != nil {
			n.inPlace = append(n.inPlace, d.schema)
		}
	}
}

func (g *graph) addObject(n *node, s *jsonschema.Schema) {
	if len(s.Properties) > 0 {
		n.properties = make(map[string]*node, len(s.Properties))
		for name, sub := range s.Properties {
			n.properties[name] = g.addNode(sub)
		}
		n.names = slices.Sorted(maps.Keys(s.Properties))
	}
	for re, sub := range s.PatternProperties {
		n.patterns = append(n.patterns, patternNode{re, g.addNode(sub)})
		n.patternText += patternSteps(re, 0)
	}
	slices.SortFunc(n.patterns, func(a, b patternNode) int {
		return strings.Compare(a.pattern.String(), b.pattern.String())
	})
	n.additional, n.closed, n.open = g.addAny(s.AdditionalProperties)
	n.leftMembers = g.addNode(s.UnevaluatedProperties)
	n.nameRules = g.addNode(s.PropertyNames)
	n.propertiesAlone = n.properties != nil && len(n.patterns) == 0 && n.additional == nil &&
		!n.closed && !n.open && n.nameRules == nil
}

func (g *graph) addArray(n *node, s *jsonschema.Schema) {
	prefix := s.PrefixItems
	n.items = g.addNode(s.Items2020)
	switch items := s.Items.(type) { // before 2020-12
	case *jsonschema.Schema:
		n.items = g.addNode(items)
	case []*jsonschema.Schema:
		prefix = items
	}
	if s.DraftVersion < 2020 && n.items == nil {
		n.items, n.itemsEnd, n.itemsOpen = g.addAny(s.AdditionalItems)
	}
	n.prefix = g.addList(prefix)
	n.contains = g.addNode(s.Contains)
	n.leftItems = g.addNode(s.UnevaluatedItems)
}

// addAny adds what the compiler keeps as nil, a bool or a schema.
func (g *graph) addAny(v any) (n *node, none, any bool) {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return g.addNode(v), false, false
	case bool:
		return nil, !v, v
	}
	return nil, false, false
}

// setSteps sets what n itself costs. A step is about 100 ns.
func setSteps(n *node, s *jsonschema.Schema) {
	for i := range n.bounds {
		n.number += n.bounds[i].steps
	}
	for _, once := range []bool{n.whole, n.constant != nil, n.enum != nil} {
		if once {
			n.number += arithmetic
			n.text++
		}
	}
	members := len(s.Required) + len(n.dependencies)
	for _, d := range n.dependencies {
		members += len(d.required)
	}
	n.fixed += int64(members) / 4
	if s.Format != nil {
		n.fixed += 2
		n.format = 1
		if s.Format.Name == "regex" {
			n.format = regexSteps
		}
		n.text += n.format
	}
	if s.MinLength != nil || s.MaxLength != nil {
		n.text++
	}
	if s.Pattern != nil {
		n.text += patternSteps(s.Pattern, 0)
	}
}

// checkCosts refuses a graph in which a single value could take more than maxCost steps, or in
// which a node applies itself to the same value.
func (g *graph) checkCosts(maxCost int64) error {
	if g.err != nil {
		return g.err
	}
	for _, n := range g.nodes {
		if err := n.computeCost(maxCost); err != nil {
			return err
		}
	}
	return nil
}

// computeCost sets cost and depth. It visits each node once, and refuses a sum as soon as it
// exceeds maxCost, so time is bounded and sums cannot overflow.
func (n *node) computeCost(maxCost int64) error {
	switch n.state {
	case visited:
		return nil
	case inProgress:
		return errors.New("a reference leads back to itself without going into the value")
	}
	n.state = inProgress
	n.cost = n.fixed + n.number + n.text + n.patternText
	for _, sub := range n.inPlace {
		if err := sub.computeCost(maxCost); err != nil {
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
		return fmt.Errorf("references and combinations are nested more than %d deep",
			maxInPlaceDepth)
	}
	n.state = visited
	return nil
}
