package server

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A tagger adds to an inferred schema what the struct tags say beyond what the
// library reads: those that forms have, too, so that a bound which holds for a
// person's answer holds for arguments.
type tagger struct {
	// arguments may leave out what has a default; see [defaults].
	arguments bool
	exact     []exactBound
}

// An exactBound is one that the library, whose bounds are floats, would round.
type exactBound struct {
	path    []string // of the subschema
	keyword string
	number  fields.Number
}

// applyTags goes over the schema s of t, which is at path.
func (g *tagger) applyTags(s *jsonschema.Schema, t reflect.Type, path []string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case s == nil:
		return nil
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return g.applyTags(s.Items, t.Elem(), extendPath(path, "items"))
	case t.Kind() == reflect.Map:
		return g.applyTags(s.AdditionalProperties, t.Elem(),
			extendPath(path, "additionalProperties"))
	case t.Kind() != reflect.Struct || s.Properties == nil: // such as a time.Time
		return nil
	}
	for _, member := range fields.Members(t) {
		if member.Field.Anonymous { // the library takes its fields for ours, or leaves it out
			return &fields.Error{Type: member.Owner, Field: member.Field.Name,
				Reason: "is embedded and a member of its own, which cannot be inferred: give the " +
					"field a name, or the tool an InputSchema"}
		}
		property := s.Properties[member.Name]
		if property == nil {
			continue
		}
		tags, err := member.Read()
		if err != nil {
			return err
		}
		at := extendPath(path, "properties", member.Name)
		g.describeField(property, &tags, at)
		if tags.Default != nil {
			if err := checkDefault(property, member.Field.Type, tags.Default); err != nil {
				return &fields.Error{Type: member.Owner, Field: member.Field.Name,
					Reason: err.Error()}
			}
			property.Default = tags.Default
			if g.arguments {
				s.Required = slices.DeleteFunc(s.Required,
					func(name string) bool { return name == member.Name })
			}
		}
		if err := g.applyTags(property, member.Field.Type, at); err != nil {
			return err
		}
	}
	return nil
}

// extendPath returns a path of its own, since several begin with the same steps.
func extendPath(path []string, steps ...string) []string { return slices.Concat(path, steps) }

// describeField adds the tags of one field to its schema.
func (g *tagger) describeField(s *jsonschema.Schema, tags *fields.Tags, path []string) {
	if tags.Title != "" {
		s.Title = tags.Title
	}
	if tags.Format != "" {
		s.Format = tags.Format
	}
	for _, size := range []struct {
		from *int
		to   **int
	}{{tags.MinLength, &s.MinLength}, {tags.MaxLength, &s.MaxLength}, {tags.MinItems, &s.MinItems},
		{tags.MaxItems, &s.MaxItems}} {
		if size.from != nil {
			*size.to = size.from
		}
	}
	for _, bound := range []struct {
		keyword string
		from    *fields.Number
		to      **float64
	}{{"minimum", tags.Minimum, &s.Minimum}, {"maximum", tags.Maximum, &s.Maximum}} {
		if bound.from == nil {
			continue
		}
		float, same := bound.from.Float()
		if *bound.to = &float; !same {
			g.exact = append(g.exact, exactBound{path, bound.keyword, *bound.from})
		}
	}
	if tags.Values != nil {
		offerValues(s, tags)
	}
}

// offerValues adds the values to choose from: as forms spell them, with titles
// as constants.
func offerValues(s *jsonschema.Schema, tags *fields.Tags) {
	list := s.Items != nil
	if list {
		s = s.Items
	}
	nullable := slices.Contains(s.Types, "null") // a pointer may be null whatever is listed
	if tags.Titles == nil {
		for _, value := range tags.Values {
			s.Enum = append(s.Enum, value)
		}
		if nullable {
			s.Enum = append(s.Enum, nil)
		}
		return
	}
	options := make([]*jsonschema.Schema, 0, len(tags.Values)+1)
	for i, value := range tags.Values {
		options = append(options, &jsonschema.Schema{Const: jsonschema.Ptr[any](value),
			Title: tags.Titles[i]})
	}
	if nullable {
		options = append(options, &jsonschema.Schema{Type: "null"})
	}
	if list {
		s.AnyOf = options
	} else {
		s.OneOf = options
	}
}

// checkDefault holds a default against the rules of its own field, as if it had
// been sent.
func checkDefault(s *jsonschema.Schema, t reflect.Type, value []byte) error {
	raw, err := jsonx.Marshal(s)
	if err != nil {
		return err
	}
	compiled, err := compileSchema(raw, schema.Limits{})
	if err != nil {
		return err
	}
	if err := compiled.Validate(value); err != nil {
		return fmt.Errorf("default is %s, but it %w", value, err)
	}
	if jsonx.Unmarshal(value, reflect.New(t).Interface()) != nil {
		return fmt.Errorf("default is %s, which the Go type cannot hold", value)
	}
	return nil
}

// restoreExactBounds puts the exact bounds in the place of the rounded ones.
func (g *tagger) restoreExactBounds(raw json.RawMessage) (json.RawMessage, error) {
	var err error
	for _, bound := range g.exact {
		if raw, err = replaceAt(raw, append(bound.path, bound.keyword),
			bound.number.String()); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// replaceAt returns object with another value at the end of path.
func replaceAt(object []byte, path []string, value string) ([]byte, error) {
	out := []byte{'{'}
	err := jsonx.Members(object, func(key, old []byte) error {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsonx.AppendTextBytes(out, key), ':')
		switch {
		case string(key) != path[0]:
			out = append(out, old...)
		case len(path) == 1:
			out = append(out, value...)
		default:
			within, err := replaceAt(old, path[1:], value)
			out = append(out, within...)
			return err
		}
		return nil
	})
	return append(out, '}'), err
}
