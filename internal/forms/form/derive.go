package form

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Derive makes a form from a struct type, or a pointer to one, with its exported fields in order;
// an embedded struct contributes its own fields. The package documentation lists the tags. The
// error is an *[Error] that names the member and the allowed forms.
//
// An answer returned by [Form.Accept] decodes into the type without error.
func Derive(t reflect.Type, o Options) (*Form, error) {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || t == timeType {
		return nil, &Error{Reason: fmt.Sprintf("a form is derived from a struct, not from %v", t)}
	}
	derived, err := deriveFields(nil, t)
	if err != nil {
		return nil, err
	}
	if err := checkFields(derived, o.AllowSecrets); err != nil {
		return nil, err
	}
	if derived, err = omitFields(derived, o.Omit); err != nil {
		return nil, err
	}
	return newForm(derived, encode(derived))
}

func omitFields(derived []field, names []string) ([]field, error) {
	for _, name := range names {
		i := slices.IndexFunc(derived, func(f field) bool { return f.name == name })
		if i < 0 {
			return nil, fieldError(name, "is to be left out, and the form has no such field")
		}
		derived = slices.Delete(derived, i, i+1)
	}
	return derived, nil
}

func deriveFields(derived []field, t reflect.Type) ([]field, error) {
	for sf := range t.Fields() {
		tag, tagged := sf.Tag.Lookup("json")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if sf.Anonymous && name == "" {
			if sf.Type.Kind() != reflect.Struct || sf.Type == timeType || tagged {
				return nil, fieldError(sf.Name, "is embedded; only a plain struct can be, "+
					"without a json tag, and its fields become the form's")
			}
			err := fields.Refuse(t, sf)
			if err != nil {
				return nil, fieldError(sf.Name, err.Error())
			}
			if derived, err = deriveFields(derived, sf.Type); err != nil {
				return nil, err
			}
			continue
		}
		if !sf.IsExported() {
			continue
		}
		name = cmp.Or(name, sf.Name)
		f, err := deriveField(t, sf, name, options)
		if err != nil {
			return nil, fieldError(name, err.Error())
		}
		derived = append(derived, f)
	}
	return derived, nil
}

func deriveField(owner reflect.Type, sf reflect.StructField, name, options string) (field, error) {
	f := newField(name)
	f.required = true
	if strings.ContainsFunc(name, badInName) {
		return f, errors.New("has a character in its name that encoding/json does not allow there")
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty", "omitzero":
			f.required = false
		case "string":
			return f, errors.New(`has the json option "string", which the grammar cannot express`)
		}
	}
	t := sf.Type
	if t.Kind() == reflect.Pointer {
		f.required = false
		t = t.Elem()
	}
	if err := f.setType(t); err != nil {
		return f, err
	}
	tags, err := fields.Read(owner, sf)
	if err != nil {
		return f, err
	}
	if err := f.setTags(&tags); err != nil {
		return f, &fields.Error{Type: owner, Field: sf.Name, Reason: err.Error()}
	}
	return f, nil
}

// badInName reports whether encoding/json ignores a tag whose name contains r.
func badInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) &&
		!strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	numberType = reflect.TypeFor[json.Number]()
)

func (f *field) setType(t reflect.Type) error {
	if t == timeType {
		f.kind, f.format, f.target = text, "date-time", timeType
		return nil
	}
	if t == numberType { // a string for package reflect, a number for encoding/json
		f.kind = number
		return nil
	}
	if jsonx.DecodesItself(t) {
		return fmt.Errorf("is of type %v, which decodes itself, so its form cannot be known; %s", t,
			allowed)
	}
	switch t.Kind() {
	case reflect.String:
		f.kind = text
	case reflect.Bool:
		f.kind = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.kind, f.target = integer, t
		f.minimum, f.maximum = fields.Range(t)
	case reflect.Float32, reflect.Float64:
		f.kind, f.target = number, t
	case reflect.Slice:
		e := t.Elem()
		if e.Kind() != reflect.String || e == numberType || jsonx.DecodesItself(e) {
			return fmt.Errorf("is of type %v; %s", t, allowed)
		}
		f.kind = choices
	default:
		return fmt.Errorf("is of type %v; %s", t, allowed)
	}
	return nil
}

// setTags adds the struct tags to f, whose kind is set.
func (f *field) setTags(tags *fields.Tags) error {
	f.title, f.description = tags.Title, tags.Description
	if tags.Values != nil {
		f.values, f.titles = tags.Values, tags.Titles
		if f.kind == text {
			f.kind = choice
		}
	} else if f.kind == choices {
		return errors.New(`a []string needs an enum tag with the values to choose from, ` +
			`such as enum:"a,b,c"`)
	}
	if tags.Format != "" {
		if !isFormat(tags.Format) {
			return fmt.Errorf(
				"format %q is none of email, uri, date and date-time, and a form has no others",
				tags.Format)
		}
		f.format = tags.Format
	}
	f.minSize = cmp.Or(tags.MinLength, tags.MinItems)
	f.maxSize = cmp.Or(tags.MaxLength, tags.MaxItems)
	if tags.Minimum != nil {
		f.minimum = tags.Minimum
	}
	if tags.Maximum != nil {
		f.maximum = tags.Maximum
	}
	if err := f.checkDefinition(); err != nil {
		return err
	}
	if tags.Default == nil {
		return nil
	}
	if reason := f.checkValue(f.compileRules(), tags.Default); reason != "" {
		return fmt.Errorf("default is %s, but it %s", tags.Default, reason)
	}
	f.fallback = tags.Default
	return nil
}

func isFormat(s string) bool {
	return s == "email" || s == "uri" || s == "date" || s == "date-time"
}

const allowed = "a form is flat: string, bool, integers, floats, time.Time, " +
	"[]string with an enum, and pointers to these"
