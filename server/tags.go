package server

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// applyTags adds to the schema of t what the tags of its fields say beyond what
// the library reads: those that forms have, too, so that a bound which holds for
// a person's answer holds for arguments. A tag that does not go with its field
// is an error, since a bound that is dropped in silence is none.
func applyTags(s *jsonschema.Schema, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case s == nil:
		return nil
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		return applyTags(s.Items, t.Elem())
	case t.Kind() == reflect.Map:
		return applyTags(s.AdditionalProperties, t.Elem())
	case t.Kind() != reflect.Struct || s.Properties == nil: // such as a time.Time
		return nil
	}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			name = field.Name
		}
		property := s.Properties[name]
		if property == nil || !field.IsExported() {
			continue // left out, or embedded: then its fields come by themselves
		}
		if err := tagged(property, field); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := applyTags(property, field.Type); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// tagged applies the tags of one field.
func tagged(s *jsonschema.Schema, field reflect.StructField) error {
	kind := kindOf(field.Type)
	if title, ok := field.Tag.Lookup("title"); ok {
		s.Title = title
	}
	for _, bound := range []struct {
		tag string
		to  **float64
	}{{"minimum", &s.Minimum}, {"maximum", &s.Maximum}} {
		text, ok := field.Tag.Lookup(bound.tag)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || kind != "number" {
			return fmt.Errorf("%s:%q does not bound a %s", bound.tag, text, field.Type)
		}
		*bound.to = &n
	}
	for _, count := range []struct {
		tag, kind string
		to        **int
	}{
		{"minLength", "string", &s.MinLength}, {"maxLength", "string", &s.MaxLength},
		{"minItems", "list", &s.MinItems}, {"maxItems", "list", &s.MaxItems},
	} {
		text, ok := field.Tag.Lookup(count.tag)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || kind != count.kind {
			return fmt.Errorf("%s:%q is no count of a %s", count.tag, text, field.Type)
		}
		size := int(n)
		*count.to = &size
	}
	return enumerated(s, field, kind)
}

// enumerated applies the tags enum and format, which are for strings, and enum
// for lists of them as well.
func enumerated(s *jsonschema.Schema, field reflect.StructField, kind string) error {
	if format, ok := field.Tag.Lookup("format"); ok {
		if kind != "string" {
			return fmt.Errorf("format:%q is for a string, not for a %s", format, field.Type)
		}
		s.Format = format
	}
	list, ok := field.Tag.Lookup("enum")
	if !ok {
		return nil
	}
	if kind == "list" && s.Items != nil && kindOf(field.Type.Elem()) == "string" {
		s, kind = s.Items, "string"
	}
	if kind != "string" {
		return fmt.Errorf("enum:%q is for a string or a list of them, not for a %s", list, field.Type)
	}
	for value := range strings.SplitSeq(list, ",") {
		s.Enum = append(s.Enum, strings.TrimSpace(value))
	}
	if slices.Contains(s.Types, "null") { // a pointer may be null whatever is listed
		s.Enum = append(s.Enum, nil)
	}
	return nil
}

// kindOf is what tags tell apart: "string", "number", "list", or "".
func kindOf(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "" // a text in base64
		}
		return "list"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return "number"
	}
	return ""
}
