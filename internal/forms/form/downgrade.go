package form

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// DowngradeTo20250618 rewrites a form's schema, as accepted by [Parse] or [Derive], for revision
// 2025-06-18: titled choices become enum with enumNames, and defaults other than booleans are
// dropped (the server applies them). The error names a field of several choices, which it lacks.
func DowngradeTo20250618(schema []byte) (json.RawMessage, error) {
	return rewrite(schema, func(key string, value []byte) ([]byte, error) {
		if key != "properties" {
			return value, nil
		}
		return rewrite(value, func(name string, property []byte) ([]byte, error) {
			spelled, err := downgradeProperty(property)
			if err != nil {
				return nil, &Error{Field: name, Reason: err.Error()}
			}
			return spelled, nil
		})
	})
}

func downgradeProperty(property []byte) ([]byte, error) {
	m := readMembers(property)
	typ := m.textOf("type")
	if typ == "array" {
		return nil, fmt.Errorf("revision 2025-06-18 cannot ask for several choices at once")
	}
	out := []byte{'{'}
	err := jsonx.Members(property, func(key, value []byte) error {
		if string(key) == "default" && typ != "boolean" {
			return nil
		}
		if string(key) == "oneOf" && m["enum"] == nil {
			if values, titles, ok := splitChoices(value); ok {
				out = appendRaw(appendRaw(out, "enum", values), "enumNames", titles)
				return nil
			}
		}
		out = appendRaw(out, string(key), value)
		return nil
	})
	return append(out, '}'), err
}

// splitChoices splits a list of titled texts into values and titles, or reports false.
func splitChoices(raw []byte) (values, titles []byte, ok bool) {
	var constants, names [][]byte
	for _, choice := range elementsOf(raw) {
		m := readMembers(choice)
		value, title := m["const"], m["title"]
		if jsonx.KindOf(value) != jsonx.String || jsonx.KindOf(title) != jsonx.String {
			return nil, nil, false
		}
		constants, names = append(constants, value), append(names, title)
	}
	return encodeList(constants), encodeList(names), jsonx.KindOf(raw) == jsonx.Array
}

// rewrite copies an object, with each value as returned by f.
func rewrite(
	object []byte, f func(key string, value []byte) ([]byte, error),
) (json.RawMessage, error) {
	out := []byte{'{'}
	err := jsonx.Members(object, func(key, value []byte) error {
		value, err := f(string(key), value)
		out = appendRaw(out, string(key), value)
		return err
	})
	if err != nil {
		return nil, err
	}
	return append(out, '}'), nil
}

func appendRaw(dst []byte, key string, value []byte) []byte {
	return append(jsonx.AppendName(dst, key), value...)
}
