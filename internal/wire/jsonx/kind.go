package jsonx

// Kind is the kind of a raw value, told by its first byte.
type Kind byte

// The kinds. Invalid is anything that starts no JSON value.
const (
	Invalid Kind = 0
	Null    Kind = 'n'
	Bool    Kind = 't'
	Number  Kind = '0'
	String  Kind = '"'
	Array   Kind = '['
	Object  Kind = '{'
)

// KindOf returns the kind of raw from its first byte that is not white space. It does not look
// further: only [Check] can say that raw is a value at all.
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
