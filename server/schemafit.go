package server

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// checkFit refuses an InputSchema that the handler's input type cannot satisfy:
//
//   - a property that the type has no field for, which the handler would never see;
//   - a type, or a listed value, that the field cannot be decoded from;
//   - a required name that the type has no field for, or that additionalProperties forbids;
//   - a bound in the tags of a field that the schema does not have: the schema is
//     used as it is, so that bound would not hold.
//
// Fields that the schema leaves out are allowed, since callers may be kept from setting them, and
// so is everything under keywords that combine schemas.
func checkFit(schema json.RawMessage, t reflect.Type) error {
	var doc any
	if err := jsonx.UnmarshalNumbers(schema, &doc); err != nil {
		return err
	}
	return checkSubschema(doc, t, "")
}

// checkSubschema checks doc against t. path names it in errors, empty at the root.
func checkSubschema(doc any, t reflect.Type, path string) error {
	s, ok := doc.(map[string]any)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if !ok || decodesFreely(t) {
		return nil
	}
	if err := checkType(s, t); err != nil {
		return faultAt(path, err)
	}
	switch t.Kind() {
	case reflect.Struct:
		return checkObject(s, t, path)
	case reflect.Map:
		if err := checkSubschema(s["additionalProperties"], t.Elem(), path+".*"); err != nil {
			return err
		}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if err := checkSubschema(properties[name], t.Elem(), joinPath(path, name)); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		return checkSubschema(s["items"], t.Elem(), path+"[]")
	}
	return nil
}

func faultAt(path string, err error) error {
	if path == "" {
		return err
	}
	return fmt.Errorf("property %q: %w", path, err)
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// decodesFreely reports whether t may be decoded from values of any type.
func decodesFreely(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Kind() == reflect.Interface || t == reflect.TypeFor[time.Time]() ||
		t == reflect.TypeFor[json.Number]() ||
		p.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func checkObject(s map[string]any, t reflect.Type, path string) error {
	members := map[string]*fields.Member{}
	for _, member := range fields.Members(t) {
		if slices.ContainsFunc(member.Options, takesTheRest) {
			return nil
		}
		members[member.Name] = &member
	}
	properties, _ := s["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if properties[name] == false { // the member must be absent
			continue
		}
		member := members[name]
		if member == nil {
			return faultAt(joinPath(path, name),
				fmt.Errorf("%v has no field for it, so the handler would not see it; add one, or "+
					"use AddRawTool", t))
		}
		if err := checkMember(properties[name], member, joinPath(path, name)); err != nil {
			return err
		}
	}
	required, _ := s["required"].([]any)
	for _, value := range required {
		name, ok := value.(string)
		if !ok {
			continue
		}
		if members[name] == nil {
			return faultAt(joinPath(path, name),
				fmt.Errorf("is required, but %v has no field for it; add one, or use AddRawTool",
					t))
		}
		if _, listed := properties[name]; !listed && s["additionalProperties"] == false &&
			s["patternProperties"] == nil {
			return faultAt(joinPath(path, name),
				errors.New("is required, but not among the properties, and additionalProperties "+
					"forbids all others"))
		}
	}
	return nil
}

// takesTheRest reports whether this json tag option collects the members without a field.
func takesTheRest(option string) bool {
	return option == "embed" || option == "inline" || option == "unknown"
}

func checkMember(doc any, member *fields.Member, path string) error {
	s, ok := doc.(map[string]any)
	if !ok || member.HasOption("string") { // a number in quotes
		return nil
	}
	tags, err := member.Read()
	if err != nil {
		return err
	}
	for _, keyword := range tags.Bounds() {
		if !hasBound(s, keyword) {
			return faultAt(path, fmt.Errorf("%v.%s has the tag %s, but the InputSchema has no "+
				"such bound and is used as it is: add it there, or take the tag away",
				member.Owner, member.Field.Name, keyword))
		}
	}
	return checkSubschema(doc, member.Field.Type, path)
}

// hasBound reports whether a schema has a keyword, or one that may replace it.
func hasBound(s map[string]any, keyword string) bool {
	for _, name := range []string{keyword, "enum", "const", "oneOf", "anyOf", "allOf", "$ref"} {
		if _, ok := s[name]; ok {
			return true
		}
	}
	if keyword == "enum" {
		items, ok := s["items"].(map[string]any)
		return ok && hasBound(items, keyword)
	}
	instead, ok := map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum",
		"format": "pattern"}[keyword]
	return ok && s[instead] != nil
}

// checkType checks a schema's types and listed values.
func checkType(s map[string]any, t reflect.Type) error {
	names := []any{s["type"]}
	if list, ok := s["type"].([]any); ok {
		names = list
	}
	for _, value := range names {
		if name, ok := value.(string); ok && !decodesFrom(t, name) {
			return fmt.Errorf("is of type %s, which %v cannot be decoded from", name, t)
		}
	}
	values, _ := s["enum"].([]any)
	if value, ok := s["const"]; ok {
		values = append(values, value)
	}
	for _, value := range values {
		raw, err := jsonx.Marshal(value)
		if err == nil {
			err = jsonx.Unmarshal(raw, reflect.New(t).Interface())
		}
		if err != nil {
			return fmt.Errorf("lists the value %s, which %v cannot be decoded from",
				clipQuoted(string(raw)), t)
		}
	}
	return nil
}

// decodesFrom reports whether a value of JSON Schema type name can be decoded into t.
func decodesFrom(t reflect.Type, name string) bool {
	isBytes := t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
	switch kind := fields.KindOf(t); name {
	case "string":
		return kind == fields.Text || isBytes
	case "integer", "number":
		return kind == fields.Integer || kind == fields.Float
	case "boolean":
		return kind == fields.Boolean
	case "array":
		return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && !isBytes
	case "object":
		return t.Kind() == reflect.Struct || t.Kind() == reflect.Map
	}
	return true // null leaves the field as it is
}
