package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A tagger adds the struct tags of forms to an inferred schema: bounds hold for arguments, too.
type tagger struct {
	arguments bool // may leave out members with a default; see [defaults]
}

func (g tagger) applyTags(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s == nil {
		return nil
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		s.Types = nil // the library turns a pointer to any value into null
	}
	switch {
	case reflect.ValueOf(*s).IsZero():
		s.Extra = map[string]any{exactMark: true}
		return nil
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return g.applyTags(s.Items, t.Elem())
	case t.Kind() == reflect.Map:
		return g.applyTags(s.AdditionalProperties, t.Elem())
	case t.Kind() != reflect.Struct || s.Properties == nil: // such as a time.Time
		return nil
	}
	for _, member := range fields.Members(t) {
		if member.Field.Anonymous { // the library flattens or drops it
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
		describeField(property, &tags)
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
		if err := g.applyTags(property, member.Field.Type); err != nil {
			return err
		}
	}
	return nil
}

func describeField(s *jsonschema.Schema, tags *fields.Tags) {
	s.Title = cmp.Or(tags.Title, s.Title)
	s.Format = cmp.Or(tags.Format, s.Format)
	s.MinLength = cmp.Or(tags.MinLength, s.MinLength)
	s.MaxLength = cmp.Or(tags.MaxLength, s.MaxLength)
	s.MinItems = cmp.Or(tags.MinItems, s.MinItems)
	s.MaxItems = cmp.Or(tags.MaxItems, s.MaxItems)
	setBound(s, "minimum", tags.Minimum, &s.Minimum)
	setBound(s, "maximum", tags.Maximum, &s.Maximum)
	if tags.Values != nil {
		offerValues(s, tags)
	}
}

// exactMark begins the keyword of a bound that the library's floats would round; no json tag can
// hold it. Alone it marks an empty schema, which the library would encode as true: widely used
// clients refuse a whole list for that.
const exactMark = "\x00"

var markedKeyword = regexp.MustCompile(`"\\u0000(minimum|maximum)":`)

func setBound(s *jsonschema.Schema, keyword string, n *fields.Number, to **float64) {
	if n == nil {
		return
	}
	if float, same := n.Float(); same {
		*to = &float
		return
	}
	*to = nil
	if s.Extra == nil {
		s.Extra = map[string]any{}
	}
	s.Extra[exactMark+keyword] = json.Number(*n)
}

// marshalSchema encodes a schema with its exact bounds, and an empty one as an object.
func marshalSchema(s *jsonschema.Schema) (json.RawMessage, error) {
	raw, err := jsonx.Marshal(s)
	raw = bytes.ReplaceAll(raw, []byte(`{"\u0000":true}`), []byte("{}"))
	return markedKeyword.ReplaceAll(raw, []byte(`"$1":`)), err
}

// offerValues adds the options as forms do: titled ones as constants.
func offerValues(s *jsonschema.Schema, tags *fields.Tags) {
	options := &s.OneOf
	if s.Items != nil {
		s = s.Items
		options = &s.AnyOf
	}
	for i, value := range tags.Values {
		if tags.Titles == nil {
			s.Enum = append(s.Enum, value)
		} else {
			*options = append(*options, &jsonschema.Schema{Const: jsonschema.Ptr[any](value),
				Title: tags.Titles[i]})
		}
	}
	switch nullable := slices.Contains(s.Types, "null"); { // a pointer may also be null
	case nullable && tags.Titles == nil:
		s.Enum = append(s.Enum, nil)
	case nullable:
		*options = append(*options, &jsonschema.Schema{Type: "null"})
	}
}

// checkDefault validates a default as if it had been sent.
func checkDefault(s *jsonschema.Schema, t reflect.Type, value []byte) error {
	raw, err := marshalSchema(s)
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
