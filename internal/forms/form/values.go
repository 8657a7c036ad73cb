package form

import (
	"errors"
	"fmt"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// parseEnumNames checks titles in the older spelling (LegacyTitledEnumSchema).
func (p *parser) parseEnumNames(f *field, raw []byte) error {
	titles, err := parseTexts(raw)
	if err == nil && len(titles) != len(f.values) {
		err = fmt.Errorf("has %s for %s", count(len(titles), "title"),
			count(len(f.values), "value"))
	}
	if err != nil && !p.loose {
		return err
	}
	return nil
}

// parseItems reads the items of a multi-select: an enum, or constants with titles.
func (p *parser) parseItems(f *field, raw []byte) error {
	if jsonx.KindOf(raw) != jsonx.Object {
		return errors.New("must be an object with the values to choose from")
	}
	typed := ""
	err := jsonx.Members(raw, func(key, value []byte) (err error) {
		if string(key) == "anyOf" && jsonx.HasMember(raw, "enum") {
			return p.refuseUnknown(f.name, key) // both apply
		}
		switch string(key) {
		case "type":
			typed, err = jsonx.Text(value)
		case "enum":
			f.values, err = parseValues(value)
		case "anyOf":
			f.values, f.titles, err = p.parseTitledValues(value)
		default:
			return p.refuseUnknown(f.name, key)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case f.values == nil:
		return errors.New(`must list the values to choose from, in "enum" or "anyOf"`)
	case typed != "string" && (typed != "" || f.titles == nil):
		return errors.New("must be strings")
	}
	return nil
}

func (p *parser) parseTitledValues(raw []byte) (values, titles []string, err error) {
	if jsonx.KindOf(raw) != jsonx.Array {
		return nil, nil, errors.New("must be an array")
	}
	err = jsonx.Elements(raw, func(_ int, option []byte) error {
		if len(values) == MaxValues {
			return fmt.Errorf("has more than %d values", MaxValues)
		}
		if jsonx.KindOf(option) != jsonx.Object {
			return errors.New("must hold objects")
		}
		var value, title *string
		err := jsonx.Members(option, func(key, part []byte) error {
			to := &value
			switch string(key) {
			case "const":
			case "title":
				to = &title
			default:
				return p.refuseUnknown("", key)
			}
			s, err := jsonx.Text(part)
			if err != nil {
				return fmt.Errorf("must hold a %s that is a string", key)
			}
			*to = &s
			return nil
		})
		if err != nil {
			return err
		}
		if value == nil || title == nil && !p.loose {
			return errors.New("must hold objects with const and title")
		}
		if title == nil {
			title = value
		}
		values, titles = append(values, *value), append(titles, *title)
		return nil
	})
	return values, titles, err
}

func parseValues(raw []byte) ([]string, error) {
	list, err := parseTexts(raw)
	if err == nil && len(list) > MaxValues {
		err = fmt.Errorf("has more than %d values", MaxValues)
	}
	return list, err
}

func parseTexts(raw []byte) ([]string, error) {
	if jsonx.KindOf(raw) != jsonx.Array {
		return nil, errors.New("must be an array of strings")
	}
	list := []string{}
	err := jsonx.Elements(raw, func(_ int, value []byte) error {
		s, err := jsonx.Text(value)
		if err != nil {
			return errors.New("must be an array of strings")
		}
		list = append(list, s)
		return nil
	})
	return list, err
}
