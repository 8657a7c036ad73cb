package jsonx

// Kind is the kind of a raw value, given by its first byte.
type Kind byte

// The kinds. Invalid means that no JSON value starts like this.
const (
	Invalid Kind = 0
	Null    Kind = 'n'
	Bool    Kind = 't'
	Number  Kind = '0'
	String  Kind = '"'
	Array   Kind = '['
	Object  Kind = '{'
)

// KindOf returns the kind of raw from its first byte after white space, without checking the rest.
func KindOf(raw []byte) Kind {
	i := skipSpace(raw, 0)
	if i == len(raw) {
		return Invalid
	}
	switch c := raw[i]; {
	case c == '"', c == '{', c == '[', c == 'n':
		return Kind(c)
	case c == 't', c == 'f':
		return Bool
	case c == '-', isDigit(c):
		return Number
	}
	return Invalid
}

// String names the kind as error messages do.
func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Bool:
		return "boolean"
	case Number:
		return "number"
	case String:
		return "string"
	case Array:
		return "array"
	case Object:
		return "object"
	}
	return "invalid"
}
