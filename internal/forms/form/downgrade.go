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
		switch {
		case string(key) == "default" && typ != "boolean":
			return nil
		case string(key) == "oneOf" && !listed && areTitledTexts(value):
			values, titles, err := splitChoices(value)
			out = appendRaw(appendRaw(out, "enum", values), "enumNames", titles)
			return err
		}
		out = appendRaw(out, string(key), value)
		return nil
	})
	return append(out, '}'), err
}

// areTitledTexts reports whether a union is the list of choices of the grammar.
func areTitledTexts(raw []byte) bool {
	titled := jsonx.KindOf(raw) == jsonx.Array
	walkElements(raw, func(choice []byte) {
		texts := 0
		walkMembers(choice, func(key string, value []byte) {
			if (key == "const" || key == "title") && jsonx.KindOf(value) == jsonx.String {
				texts++
			}
		})
		titled = titled && texts == 2
	})
	return titled
}

// splitChoices splits titled choices into two arrays of strings.
func splitChoices(raw []byte) (values, titles []byte, err error) {
	values, titles = []byte{'['}, []byte{'['}
	err = jsonx.Elements(raw, func(i int, choice []byte) error {
		if i > 0 {
			values, titles = append(values, ','), append(titles, ',')
		}
		return jsonx.Members(choice, func(key, value []byte) error {
			switch string(key) {
			case "const":
				values = append(values, value...)
			case "title":
				titles = append(titles, value...)
			}
			return nil
		})
	})
	return append(values, ']'), append(titles, ']'), err
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
