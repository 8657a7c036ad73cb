package form

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// Derive makes a form from a struct type, or a pointer to one. Its exported fields are the form's, in their order; an embedded struct
// contributes its own. The package's documentation lists the tags. The error is an *[Error] that names the member and says what the grammar allows.
//
// An answer that [Form.Accept] returns decodes into the type without error.
func Derive(t reflect.Type, o Options) (*Form, error) {
	if t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct || t == timeType {
		return nil, &Error{Reason: fmt.Sprintf("a form is derived from a struct, not from %v", t)}
	}
	fields, err := deriveFields(nil, t)
	if err != nil {
		return nil, err
	}
	if err := checkFields(fields, o.AllowSecrets); err != nil {
		return nil, err
	}
	return newForm(fields, encode(fields))
}

func deriveFields(fields []field, t reflect.Type) ([]field, error) {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("json")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if sf.Anonymous && name == "" {
			if sf.Type.Kind() != reflect.Struct || sf.Type == timeType || tagged {
				return nil, fieldError(sf.Name, "is embedded; only a plain struct can be, without a json tag, and its fields become the form's")
			}
			var err error
			if fields, err = deriveFields(fields, sf.Type); err != nil {
				return nil, err
			}
			continue
		}
		if !sf.IsExported() {
			continue
		}
		if name == "" {
			name = sf.Name
		}
		f, err := deriveField(sf, name, options)
		if err != nil {
			return nil, fieldError(name, err.Error())
		}
		fields = append(fields, f)
	}
	return fields, nil
}

func deriveField(sf reflect.StructField, name, options string) (field, error) {
	f := field{name: name, key: append(jsonx.AppendText(nil, name), ':'), required: true}
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
	return f, f.readTags(sf.Tag)
}

// badInName reports whether r makes encoding/json ignore the name in a tag and take the Go field's instead.
func badInName(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
}

var (
	timeType            = reflect.TypeFor[time.Time]()
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// setType sets kind, target and the bounds that the Go type has of itself.
func (f *field) setType(t reflect.Type) error {
	if t == timeType {
		f.kind, f.format, f.target = text, "date-time", timeTarget
		return nil
	}
	if decodesItself(t) {
		return fmt.Errorf("is of type %v, which decodes itself, so its form cannot be known; %s", t, allowed)
	}
	switch t.Kind() {
	case reflect.String:
		f.kind = text
	case reflect.Bool:
		f.kind = boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.kind, f.target = integer, int64Target
		if bits := t.Bits(); bits < 64 {
			f.minimum, f.maximum = newBound(-1<<(bits-1)), newBound(1<<(bits-1)-1)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		f.kind, f.target, f.minimum = integer, uint64Target, newBound(0)
		if bits := t.Bits(); bits < 64 {
			f.maximum = newBound(1<<bits - 1)
		}
	case reflect.Float32:
		f.kind, f.target = number, float32Target
	case reflect.Float64:
		f.kind, f.target = number, float64Target
	case reflect.Slice:
		if t.Elem().Kind() != reflect.String || decodesItself(t.Elem()) {
			return fmt.Errorf("is of type %v; %s", t, allowed)
		}
		f.kind = choices
	default:
		return fmt.Errorf("is of type %v; %s", t, allowed)
	}
	return nil
}

func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonUnmarshalerType) || p.Implements(textUnmarshalerType)
}

func newBound(n int64) *bound { return &bound{strconv.FormatInt(n, 10), true, n} }

// allowed ends the errors about types.
const allowed = "a form is flat: string, bool, integers, floats, time.Time, []string with an enum, and pointers to these"
