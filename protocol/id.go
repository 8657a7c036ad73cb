package protocol

import (
	"fmt"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// maxIDBytes bounds a request id: it is echoed, logged and used as a map key,
// and no honest peer needs more.
const maxIDBytes = 512

// An ID identifies a request: a string or an integer, kept exactly. The zero
// ID is no id at all; the protocol forbids null. IDs may be compared with ==
// and used as map keys: 1, "1" and 9007199254740993 are three different ids.
type ID struct {
	text string // canonical JSON text
}

// IntID returns the integer id n.
func IntID(n int64) ID { return ID{strconv.FormatInt(n, 10)} }

// StringID returns the string id s.
func StringID(s string) ID { return ID{string(jsonx.AppendText(nil, s))} }

// ParseID reads an id from its JSON text. Only strings and integers without
// fraction or exponent are ids, of at most 512 bytes.
func ParseID(raw []byte) (ID, error) {
	if len(raw) > maxIDBytes {
		return ID{}, fmt.Errorf("id: longer than %d bytes", maxIDBytes)
	}
	switch jsonx.KindOf(raw) {
	case jsonx.String:
		s, err := jsonx.TextBytes(raw)
		if err != nil {
			return ID{}, fmt.Errorf("id: %w", err)
		}
		if isPlain(raw) {
			return ID{string(raw)}, nil
		}
		return ID{string(jsonx.AppendTextBytes(nil, s))}, nil
	case jsonx.Number:
		if !isInteger(raw) {
			return ID{}, fmt.Errorf("id: must be a string or an integer, got a fractional number")
		}
		return ID{string(raw)}, nil
	}
	return ID{}, fmt.Errorf("id: must be a string or an integer")
}

// isPlain reports whether raw, which is a string value, is its own canonical
// spelling for being ASCII without escapes or white space around it.
func isPlain(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return raw[0] == '"' && raw[len(raw)-1] == '"'
}

// isInteger reports whether raw is a JSON number spelled as an integer. It
// does not rely on raw having been checked: ids are re-emitted as they are.
func isInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	if len(raw) > 1 && raw[0] == '0' {
		return false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(raw) > 0
}

// IsZero reports whether there is no id.
func (id ID) IsZero() bool { return id.text == "" }

// String returns the JSON text of the id, so that 1 and "1" look different.
func (id ID) String() string { return id.text }

// MarshalJSON returns the JSON text of the id, null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) {
	if id.text == "" {
		return []byte("null"), nil
	}
	return []byte(id.text), nil
}

// UnmarshalJSON reads a string or integer id as [ParseID] does.
func (id *ID) UnmarshalJSON(raw []byte) (err error) {
	*id, err = ParseID(raw)
	return err
}
