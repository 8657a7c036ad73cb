package protocol

import (
	"fmt"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// maxIDBytes limits a request id, because it is echoed, logged and used as a map key.
const maxIDBytes = 512

// An ID identifies a request: a string or an integer. The zero ID means no id; the protocol forbids
// null. An ID is echoed as spelled by its sender. Compare IDs, and use them as map keys, by
// [ID.Value]: 7 and 7.0 are one id; 7, "7" and 9007199254740993 are three.
type ID struct {
	text string // JSON text as received
}

// IntID returns the integer id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the string id s.
func StringID(s string) ID { return ID{string(jsonx.AppendText(nil, s))} }

// ParseID reads an id from its JSON text of at most 512 bytes and keeps the spelling. It must be a
// string or an integer. An integer may be spelled with an exponent or a fraction of zeros if it has
// at most 21 digits without them.
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

// Value returns the id in canonical spelling, for comparison with == and for map keys.
func (id ID) Value() ID {
	switch {
	case id.text == "" || isPlain(id.text) || isInteger(id.text) && id.text != "-0":
		return id
	case id.text[0] == '"':
		s, _ := jsonx.TextBytes([]byte(id.text)) // already checked
		return ID{string(jsonx.AppendTextBytes(nil, s))}
	case id.text == "-0":
		return IntID(0)
	}
	plain, _ := jsonx.PlainInteger([]byte(id.text))
	return ID{string(plain)}
}

// isPlain reports whether raw is a printable ASCII string without escapes, thus canonical.
func isPlain[T ~string | ~[]byte](raw T) bool {
	for i := range len(raw) {
		if c := raw[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return len(raw) > 1 && raw[0] == '"' && raw[len(raw)-1] == '"'
}

// isInteger reports whether raw is spelled as an integer. It checks, because ids are re-emitted.
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

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the JSON text of the id as spelled: 1 and "1" look different.
func (id ID) String() string { return id.text }

// MarshalJSON returns the JSON text of the id as spelled, or null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.text == "" {
		return []byte("null"), nil
	}
	return []byte(id.text), nil
}

// UnmarshalJSON reads an id that refers to a request, in canonical spelling, see [ID.Value].
func (id *ID) UnmarshalJSON(raw []byte) error {
	parsed, err := ParseID(raw)
	*id = parsed.Value()
	return err
}
