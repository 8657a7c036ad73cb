package schema

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A checker finds unsupported keywords, in-place reference cycles, and enumerations.
type checker struct {
	found  []*jsonschema.Schema       // to be checked
	depths map[*jsonschema.Schema]int // of in-place applicators, or inProgress
	sets   valueSets
}

const inProgress = -1 // marks a subschema being checked

var (
	errLeadsBack = errors.New("a reference leads back to itself without going into the value")
	errTooNested = fmt.Errorf("references and combinations are nested more than %d deep",
		maxInPlaceDepth)
)

func (c *checker) checkAll(s *jsonschema.Schema) error {
	for c.found = []*jsonschema.Schema{s}; len(c.found) > 0; {
		next := c.found[len(c.found)-1]
		c.found = c.found[:len(c.found)-1]
		if _, err := c.checkSchema(next); err != nil {
			return err
		}
	}
	return nil
}

// checkSchema returns the depth of in-place applicators, such as $ref and allOf, below s.
func (c *checker) checkSchema(s *jsonschema.Schema) (depth int, err error) {
	if depth, ok := c.depths[s]; ok {
		if depth == inProgress {
			return 0, errLeadsBack
		}
		return depth, nil
	}
	c.depths[s] = inProgress
	if s.Enum != nil {
		c.sets[s.Enum] = newValueSet(s.Enum.Values)
	}
	if s.Const != nil {
		c.sets[s.Const] = newValueSet([]any{*s.Const})
	}
	for name, value := range keywordsOf(s) {
		switch name {
		case "Ref", "Not", "AllOf", "AnyOf", "OneOf", "If", "Then", "Else", "Dependencies",
			"DependentSchemas": // for the same value
			for _, sub := range subschemas(value) {
				below, err := c.checkSchema(sub)
				if err != nil {
					return 0, err
				}
				if depth = max(depth, below+1); depth > maxInPlaceDepth {
					return 0, errTooNested
				}
			}
		case "PropertyNames", "Properties", "PatternProperties", "AdditionalProperties",
			"UnevaluatedProperties", "Contains", "Items", "AdditionalItems", "PrefixItems",
			"Items2020", "UnevaluatedItems": // for parts of the value
			c.found = append(c.found, subschemas(value)...)
		case "Bool", "Types", "Enum", "Const", "Format", "MaxProperties", "MinProperties",
			"Required", "DependentRequired", "MinItems", "MaxItems", "UniqueItems", "MinContains",
			"MaxContains", "MinLength", "MaxLength", "Pattern", "Maximum", "Minimum",
			"ExclusiveMaximum", "ExclusiveMinimum", "MultipleOf":
		case "DynamicRef", "RecursiveRef":
			return 0, errors.New("\"$dynamicRef\" and \"$recursiveRef\" are not supported")
		default:
			return 0, fmt.Errorf("has a keyword that is not supported: %s", name)
		}
	}
	c.depths[s] = depth
	return depth, nil
}

func subschemas(v any) []*jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{v}
	case []*jsonschema.Schema:
		return v
	case map[string]*jsonschema.Schema:
		return slices.Collect(maps.Values(v))
	case map[jsonschema.Regexp]*jsonschema.Schema:
		return slices.Collect(maps.Values(v))
	case map[string]any: // dependencies: schemas or lists of names
		var list []*jsonschema.Schema
		for _, either := range v {
			list = append(list, subschemas(either)...)
		}
		return list
	}
	return nil
}

// annotations are fields of the compiler's type that check nothing.
var annotations = [...]string{"DraftVersion", "Location", "ID", "Anchor", "DynamicAnchor",
	"RecursiveAnchor", "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly",
	"Examples", "Deprecated"}

// keywordsOf yields a subschema's keywords by field name, including those of later compilers.
func keywordsOf(s *jsonschema.Schema) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for field, value := range reflect.ValueOf(s).Elem().Fields() {
			if !field.IsExported() || value.IsZero() ||
				slices.Contains(annotations[:], field.Name) {
				continue
			}
			if !yield(field.Name, value.Interface()) {
				return
			}
		}
	}
}

func hasOnly(s *jsonschema.Schema, names ...string) bool {
	for name := range keywordsOf(s) {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}
