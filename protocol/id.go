package protocol

import (
	"fmt"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// maxIDBytes bounds a request id: it is echoed, logged and used as a map key, and no honest peer
// needs more.
const maxIDBytes = 512

// An ID identifies a request: a string or an integer. The zero ID is no id at all; the protocol
// forbids null. An ID goes back to its sender as it was spelled. IDs are compared, and used as map
// keys, by their [ID.Value]: 7 and 7.0 are one id; 7, "7" and 9007199254740993 are three.
type ID struct {
	text string // JSON text, as it was spelled
}

// IntID returns the integer id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the string id s.
func StringID(s string) ID { return ID{string(jsonx.AppendText(nil, s))} }

// ParseID reads an id from its JSON text and keeps the spelling. Only strings and integers are ids,
// of at most 512 bytes. An integer with a fraction of zeros or an exponent is one if it has no more
// than 21 digits without them.
func ParseID(raw []byte) (ID, error) {
	if len(raw) > maxIDBytes {
		return ID{}, fmt.Errorf("id: longer than %d bytes", maxIDBytes)
	}
	switch jsonx.KindOf(raw) {
	case jsonx.String:
		if !isPlain(raw) {
			if _, err := jsonx.TextBytes(raw); err != nil {
				return ID{}, fmt.Errorf("id: %w", err)
			}
		}
		return ID{string(raw)}, nil
	case jsonx.Number:
		if plain, ok := jsonx.PlainInteger(raw); !ok || !isInteger(plain) {
			return ID{}, fmt.Errorf("id: must be a string or an integer, got a fractional number")
		}
		return ID{string(raw)}, nil
	}
	return ID{}, fmt.Errorf("id: must be a string or an integer")
}

// Value returns the id in the one spelling that its value has, for comparisons with == and for map
// keys.
func (id ID) Value() ID {
	switch {
	case id.text == "" || isPlain(id.text) || isInteger(id.text) && id.text != "-0":
		return id
	case id.text[0] == '"':
		s, _ := jsonx.TextBytes([]byte(id.text)) // it has been read before
		return ID{string(jsonx.AppendTextBytes(nil, s))}
	case id.text == "-0":
		return IntID(0)
	}
	plain, _ := jsonx.PlainInteger([]byte(id.text))
	return ID{string(plain)}
}

// isPlain reports whether raw is a string value that is its own canonical spelling for being ASCII
// without escapes or white space around it.
func isPlain[T ~string | ~[]byte](raw T) bool {
	for i := range len(raw) {
		if c := raw[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return len(raw) > 1 && raw[0] == '"' && raw[len(raw)-1] == '"'
}

// isInteger reports whether raw is a JSON number spelled as an integer. It does not rely on raw
// having been checked: ids are re-emitted as they are.
func isInteger[T ~string | ~[]byte](raw T) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) > 1 && raw[0] == '0' {
		return false
	}
	for i := range len(raw) {
		if raw[i] < '0' || raw[i] > '9' {
			return false
		}
	}
	return len(raw) > 0
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the JSON text of the id as it was spelled, so that 1 and "1" look different.
func (id ID) String() string { return id.text }

// MarshalJSON returns the JSON text of the id as it was spelled, null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.text == "" {
		return []byte("null"), nil
	}
	return []byte(id.text), nil
}

// UnmarshalJSON reads the value of a string or integer id that refers to a request, see [ID.Value].
func (id *ID) UnmarshalJSON(raw []byte) error {
	parsed, err := ParseID(raw)
	*id = parsed.Value()
	return err
}
