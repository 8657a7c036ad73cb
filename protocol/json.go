package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// sortedKeys makes encodings and messages deterministic.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// walkMembers checks raw, which must be an object, and calls f for each member. Text that has
// passed [jsonx.Check] is walked with [jsonx.Members], or with readMembers.
func walkMembers(raw []byte, f func(key, value []byte) error) error {
	if err := jsonx.Check(raw); err != nil {
		return err
	}
	return jsonx.Members(raw, f)
}

// readMembers calls f for the members of raw, an object that has passed [jsonx.Check]. A member
// that is null is absent, since many programs write null for what is not set, unless keepsNull. A
// required member is missing then. Objects whose names the peer chooses are no case for it. See
// internal/design/reading.md.
func readMembers(raw []byte, f func(key, value []byte) error) error {
	return jsonx.PresentMembers(raw, keepsNull, f)
}

// keepsNull reports whether null in a member is not its absence.
func keepsNull(key []byte) bool {
	switch string(key) {
	case "requestState", "inputRequests", "inputResponses", "action", "resultType",
		MetaProtocolVersion, MetaClientCapabilities:
		return true // refused: safety depends on them
	case "structuredContent", "data":
		return true // JSON values, of which null is one
	case "content", "contents", "tools", "prompts", "resources", "resourceTemplates":
		return true // empty lists: servers in use spell them so
	}
	return false
}

// orAbsent returns the value of a member, nil for null.
func orAbsent(value []byte) []byte {
	if jsonx.KindOf(value) == jsonx.Null {
		return nil
	}
	return value
}

// nameMember returns err with the name of the member in front, nil for nil.
func nameMember(key []byte, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// objectWriter appends the members of one object, commas included.
type objectWriter struct {
	dst     []byte
	version Version // in whose words the members are written
	server  Meta    // of [AppendResult]
	err     error
}

// beginObject appends the opening brace to dst. The members are written in the words of [Latest].
func beginObject(dst []byte) objectWriter {
	return objectWriter{dst: append(dst, '{'), version: Latest}
}

// addKey appends a member name that needs no escaping. The caller appends the value to dst.
func (w *objectWriter) addKey(name string) {
	if w.dst[len(w.dst)-1] != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, `":`...)
}

func (w *objectWriter) addText(name, value string) {
	w.addKey(name)
	w.dst = jsonx.AppendText(w.dst, value)
}

// addNonEmptyText appends a string member unless it is empty.
func (w *objectWriter) addNonEmptyText(name, value string) {
	if value != "" {
		w.addText(name, value)
	}
}

func (w *objectWriter) addFlag(name string, value bool) {
	if value {
		w.addKey(name)
		w.dst = append(w.dst, "true"...)
	}
}

func (w *objectWriter) addInteger(name string, value int64) {
	w.addKey(name)
	w.dst = appendInt(w.dst, value)
}

// addRaw appends JSON text of an author or a peer after checking it. Nil is left out.
func (w *objectWriter) addRaw(name string, value []byte) {
	if value == nil {
		return
	}
	if err := jsonx.Check(value); err != nil {
		w.recordError(name, err)
		return
	}
	w.addKey(name)
	w.dst = jsonx.AppendCompact(w.dst, value)
}

// addRawObject is addRaw for a value that must be an object.
func (w *objectWriter) addRawObject(name string, value []byte) {
	if value != nil && jsonx.KindOf(value) != jsonx.Object {
		w.recordError(name, fmt.Errorf("must be a JSON object"))
		return
	}
	w.addRaw(name, value)
}

// addValue appends the encoding of a plain data type of this package.
func (w *objectWriter) addValue(name string, v any) {
	w.addKey(name)
	var err error
	if w.dst, err = jsonx.AppendEncode(w.dst, v); err != nil {
		w.recordError(name, err)
	}
}

// recordError records the first error, if there is one, which endObject returns. What is appended
// after an error is not used.
func (w *objectWriter) recordError(name string, err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("%s: %w", name, err)
	}
}

// keepError records the first error under no name.
func (w *objectWriter) keepError(err error) { w.err = firstError(w.err, err) }

// endObject appends the closing brace.
func (w *objectWriter) endObject() ([]byte, error) { return append(w.dst, '}'), w.err }

// textMember reads a string member and names it when it is not one.
func textMember(dst *string, key, value []byte) error {
	s, err := jsonx.Text(value)
	if err != nil {
		return fmt.Errorf("%s: must be a string", key)
	}
	*dst = s
	return nil
}

// objectMember keeps an object member and names it when it is not one.
func objectMember[T ~[]byte](dst *T, key, value []byte) error {
	if jsonx.KindOf(value) != jsonx.Object {
		return fmt.Errorf("%s: must be an object", key)
	}
	*dst = T(value)
	return nil
}

// decodeMember decodes a plain data type and names the member when it fails.
func decodeMember(dst any, key, value []byte) error {
	if err := jsonx.Decode(value, dst); err != nil {
		return fmt.Errorf("%s: %w", key, jsonx.Plain(err))
	}
	return nil
}

// orEmpty returns the list, which is encoded as an empty array when it is nil.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// firstError returns the first of errs that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
