package fields

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"
)

// A Kind is a class of types with the same tags.
type Kind byte

const (
	Other   Kind = iota // an object, any value, base64
	Text                // a string
	Time                // a time.Time
	Integer             // a number without a fraction
	Float               // a number
	Boolean
	Texts // a list of strings
	List  // any other list
)

// String returns the kind with its article, as error messages use it.
func (k Kind) String() string {
	return [...]string{
		"a value of this type", "a string", "a time", "an integer", "a number",
		"a boolean", "a list of strings", "a list",
	}[k]
}

// KindOf returns the kind of t, or of what it points to. A json.Number is a number; any other type
// counts as its Go kind, even one that decodes itself.
func KindOf(t reflect.Type) Kind {
	t = deref(t)
	switch t {
	case reflect.TypeFor[time.Time]():
		return Time
	case reflect.TypeFor[json.Number]():
		return Float
	}
	switch t.Kind() {
	case reflect.String:
		return Text
	case reflect.Bool:
		return Boolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return Integer
	case reflect.Float32, reflect.Float64:
		return Float
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return Other
		}
		if KindOf(t.Elem()) == Text {
			return Texts
		}
		return List
	}
	return Other
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// Range returns the bounds of an integer type. A 64-bit bound other than zero is nil.
func Range(t reflect.Type) (minimum, maximum *Number) {
	bound := func(n int64) *Number { return new(Number(strconv.FormatInt(n, 10))) }
	t = deref(t)
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if bits := t.Bits(); bits < 64 {
			return bound(-1 << (bits - 1)), bound(1<<(bits-1) - 1)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if bits := t.Bits(); bits < 64 {
			return bound(0), bound(1<<bits - 1)
		}
		return bound(0), nil
	}
	return nil, nil
}

func (n Number) reasonOutside(t reflect.Type) string {
	t = deref(t)
	minimum, maximum := Range(t)
	switch {
	case minimum != nil && n.Compare(*minimum) < 0:
		return "the Go type ends at " + string(*minimum)
	case maximum != nil && n.Compare(*maximum) > 0:
		return "the Go type ends at " + string(*maximum)
	}
	isFloat := t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64
	switch {
	case !n.Fits(t) && !isFloat:
		return "the Go type ends at 64 bits"
	case !n.Fits(t):
		return "it is out of the range of the Go type"
	case isFloat && n.isRounded(t.Bits()):
		return "the Go type cannot hold it and rounds it"
	}
	return ""
}

// Fits reports whether n is in the range of t. For integer types, n must be an integer, and the
// range is that of 64 bits, because [Range] has the bounds of smaller types.
func (n Number) Fits(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err := strconv.ParseInt(string(n), 10, 64)
		return err == nil || n.Exact().Num().IsInt64()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		_, err := strconv.ParseUint(string(n), 10, 64)
		return err == nil || n.Exact().Num().IsUint64()
	case reflect.Float32, reflect.Float64:
		return n.FitsFloat(t.Bits())
	}
	return true
}
