package form

import (
	"encoding/json"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// DowngradeTo20250618 returns a form's schema as revision 2025-06-18 knows forms: titled choices
// become enum with enumNames, defaults of anything but booleans are dropped (the server fills them
// in all the same), and what that revision cannot ask for at all, several choices at once, is an
// error naming the field. schema must be one that [Parse] or [Derive] accepted.
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
	typ, listed := "", false
	err := jsonx.Members(property, func(key, value []byte) (err error) {
		switch string(key) {
		case "type":
			typ, err = jsonx.Text(value)
		case "enum":
			listed = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if typ == "array" {
		return nil, fmt.Errorf("revision 2025-06-18 cannot ask for several choices at once")
	}
	out := []byte{'{'}
	err = jsonx.Members(property, func(key, value []byte) error {
		if string(key) == "default" && typ != "boolean" {
			return nil
		}
		if string(key) == "oneOf" && !listed {
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

// splitChoices splits a list of titled texts into their values and titles. It reports false for any
// other union.
func splitChoices(raw []byte) (values, titles []byte, ok bool) {
	var constants, names [][]byte
	count := 0
	walkElements(raw, func(choice []byte) {
		count++
		walkMembers(choice, func(key string, value []byte) {
			switch {
			case jsonx.KindOf(value) != jsonx.String:
			case key == "const":
				constants = append(constants, value)
			case key == "title":
				names = append(names, value)
			}
		})
	})
	ok = jsonx.KindOf(raw) == jsonx.Array && len(constants) == count && len(names) == count
	return encodeList(constants), encodeList(names), ok
}

// rewrite copies an object, each value as f returns it.
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
