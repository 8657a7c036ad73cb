package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/schema"
)

// readTags completes f, whose kind follows from the Go type, from the struct tags.
func (f *field) readTags(tag reflect.StructTag) error {
	f.description = tag.Get("jsonschema")
	f.title = tag.Get("title")
	for _, s := range []string{f.description, f.title, tag.Get("enum"), tag.Get("enumTitles"), tag.Get("default")} {
		if !utf8.ValidString(s) {
			return errors.New("has a tag that is not UTF-8")
		}
	}
	if err := f.readEnum(tag); err != nil {
		return err
	}
	if err := f.readFormat(tag); err != nil {
		return err
	}
	if err := f.readLimits(tag); err != nil {
		return err
	}
	if reason := f.selfCheck(); reason != "" {
		return errors.New(reason)
	}
	return f.readDefault(tag)
}

// readEnum turns a text into a choice.
func (f *field) readEnum(tag reflect.StructTag) error {
	list, ok := tag.Lookup("enum")
	if !ok {
		if _, ok := tag.Lookup("enumTitles"); ok {
			return errors.New("enumTitles needs an enum")
		}
		if f.kind == choices {
			return errors.New(`a []string needs an enum tag with the values to choose from, such as enum:"a,b,c"`)
		}
		return nil
	}
	switch {
	case f.kind == choices:
	case f.kind == text && f.target == anyTarget:
		f.kind = choice
	default:
		return errors.New("enum is for a string or a []string")
	}
	f.values = splitList(list)
	for _, value := range f.values {
		if value == "" {
			return errors.New("enum has an empty value")
		}
	}
	if titles, ok := tag.Lookup("enumTitles"); ok {
		f.titles = splitList(titles)
	}
	return nil
}

// splitList splits at commas and trims the spaces that people put behind them.
func splitList(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func isFormat(s string) bool {
	return s == "email" || s == "uri" || s == "date" || s == "date-time"
}

func (f *field) readFormat(tag reflect.StructTag) error {
	format, ok := tag.Lookup("format")
	switch {
	case !ok:
		return nil
	case f.kind != text:
		return errors.New("format is for a string without enum")
	case !isFormat(format):
		return fmt.Errorf("format %q is none of email, uri, date and date-time", format)
	case f.target == timeTarget && format != "date-time":
		return errors.New("a time.Time has the format date-time")
	}
	f.format = format
	return nil
}

func (f *field) readLimits(tag reflect.StructTag) error {
	lengths := []struct {
		tag  string
		kind kind
		to   *limit
	}{
		{"minLength", text, &f.minSize}, {"maxLength", text, &f.maxSize},
		{"minItems", choices, &f.minSize}, {"maxItems", choices, &f.maxSize},
	}
	for _, l := range lengths {
		s, ok := tag.Lookup(l.tag)
		if !ok {
			continue
		}
		if f.kind != l.kind {
			return fmt.Errorf("%s does not go with %s", l.tag, f.describe())
		}
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return fmt.Errorf("%s is %q, not a count", l.tag, s)
		}
		*l.to = limitOf(int(n))
	}
	if err := f.readBound(tag, "minimum", &f.minimum, +1); err != nil {
		return err
	}
	return f.readBound(tag, "maximum", &f.maximum, -1)
}

// readBound reads minimum or maximum. The bound that the Go type sets may be narrowed, which is the direction inward, not widened.
func (f *field) readBound(tag reflect.StructTag, name string, to **bound, inward int) error {
	s, ok := tag.Lookup(name)
	if !ok {
		return nil
	}
	if f.kind != integer && f.kind != number {
		return fmt.Errorf("%s does not go with %s", name, f.describe())
	}
	n, err := readNumber(s)
	if err != nil || f.kind == integer && !n.isInteger() {
		return fmt.Errorf("%s is %q, not %s", name, s, f.kind)
	}
	if *to != nil && n.compare(*to)*inward < 0 {
		return fmt.Errorf("%s is %s, but the Go type ends at %s", name, s, (*to).text)
	}
	*to = &n
	return nil
}

// readNumber reads a number in the notation of JSON.
func readNumber(s string) (bound, error) {
	if jsonx.KindOf([]byte(s)) != jsonx.Number || jsonx.Check([]byte(s)) != nil || strings.TrimSpace(s) != s {
		return bound{}, errors.New("not a number")
	}
	if err := schema.CheckNumber(json.Number(s)); err != nil {
		return bound{}, err
	}
	return parseBound(s), nil
}

// readDefault reads the default by the field's kind and checks it as if it were an answer.
func (f *field) readDefault(tag reflect.StructTag) error {
	s, ok := tag.Lookup("default")
	if !ok {
		return nil
	}
	var raw []byte
	switch f.kind {
	case text, choice:
		raw = jsonx.AppendText(nil, s)
	case choices:
		var list []string
		if s != "" {
			list = splitList(s)
		}
		raw = append(appendTexts([]byte{'['}, list), ']')
	case boolean:
		if s != "true" && s != "false" {
			return fmt.Errorf("default is %q, neither true nor false", s)
		}
		raw = []byte(s)
	case integer, number:
		if _, err := readNumber(s); err != nil {
			return fmt.Errorf("default is %q, not %s", s, f.kind)
		}
		raw = []byte(s)
	}
	if reason := f.check(raw); reason != "" {
		return fmt.Errorf("default is %q, but it %s", s, reason)
	}
	f.fallback = f.appendValue(nil, raw)
	return nil
}

// describe names the field's kind for an error about its definition.
func (f *field) describe() string {
	if f.kind == choice {
		return "an enum"
	}
	return f.kind.String()
}
