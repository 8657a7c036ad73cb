package protocol

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// walkMembers checks raw, which must be an object, and calls f for each member. For checked JSON
// use [jsonx.Members] or readMembers.
func walkMembers(raw []byte, f func(key, value []byte) error) error {
	if err := jsonx.Check(raw); err != nil {
		return err
	}
	return jsonx.Members(raw, f)
}

// readMembers calls f for the members of raw, an object that has passed [jsonx.Check]. Null counts
// as absent, as many programs mean it, unless keepsNull says otherwise. Do not use readMembers for
// objects with names chosen by the peer. See internal/design/reading.md.
func readMembers(raw []byte, f func(key, value []byte) error) error {
	return jsonx.PresentMembers(raw, keepsNull, f)
}

// keepsNull reports whether null differs from absence in a member.
func keepsNull(key []byte) bool {
	switch string(key) {
	case "requestState", "inputRequests", "inputResponses", "action", "resultType",
		MetaProtocolVersion, MetaClientCapabilities:
		return true // null is refused: safety depends on these members
	case "structuredContent", "data":
		return true // JSON values, which may be null
	case "content", "contents", "tools", "prompts", "resources", "resourceTemplates":
		return true // some servers send null for an empty list
	}
	return false
}

func orAbsent(value []byte) []byte {
	if jsonx.KindOf(value) == jsonx.Null {
		return nil
	}
	return value
}

func nameMember(key []byte, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

type objectWriter struct {
	dst     []byte
	version Version // decides the spelling of the members
	server  Meta    // see [AppendResult]
	err     error
}

// beginObject appends the opening brace. Members are spelled as in [Latest].
func beginObject(dst []byte) objectWriter {
	return objectWriter{dst: append(dst, '{'), version: Latest}
}

// addKey appends a name that needs no escaping; the caller appends the value.
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

// addRaw appends JSON from a handler or a peer after checking it. Nil is left out.
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

// recordError keeps the first error, which makes the output unusable, for endObject to return.
func (w *objectWriter) recordError(name string, err error) {
	if w.err == nil && err != nil {
		w.err = fmt.Errorf("%s: %w", name, err)
	}
}

func (w *objectWriter) keepError(err error) { w.err = firstError(w.err, err) }

func (w *objectWriter) endObject() ([]byte, error) { return append(w.dst, '}'), w.err }

func textMember(dst *string, key, value []byte) error {
	s, err := jsonx.Text(value)
	if err != nil {
		return fmt.Errorf("%s: must be a string", key)
	}
	*dst = s
	return nil
}

func objectMember[T ~[]byte](dst *T, key, value []byte) error {
	if jsonx.KindOf(value) != jsonx.Object {
		return fmt.Errorf("%s: must be an object", key)
	}
	*dst = T(value)
	return nil
}

func decodeMember(dst any, key, value []byte) error {
	if err := jsonx.Decode(value, dst); err != nil {
		return fmt.Errorf("%s: %w", key, jsonx.Plain(err))
	}
	return nil
}

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
