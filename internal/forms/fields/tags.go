package fields

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Tags holds the tags of one field.
type Tags struct {
	Title, Description string

	Format               string // may be empty
	MinLength, MaxLength *int
	MinItems, MaxItems   *int
	Minimum, Maximum     *Number

	Values []string // nil without enum
	Titles []string // one for each value, or nil

	// Default is a JSON value of the field's kind, or nil. The validator of the form or arguments
	// checks it against the other rules.
	Default []byte

	pairs map[string]string // of the tag
}

// An Error describes a wrong tag.
type Error struct {
	Type   reflect.Type // the struct
	Field  string       // its Go field
	Tag    string       // such as minimum:"one"; empty for an error about all tags
	Reason string
}

// Error returns `main.Order.Count: tag minimum:"one": is not a number`.
func (e *Error) Error() string {
	where := e.Type.String() + "." + e.Field
	if e.Tag != "" {
		where += ": tag " + e.Tag
	}
	return where + ": " + e.Reason
}

// Read reads the tags of field, a field of the struct owner. The error is an *[Error].
func Read(owner reflect.Type, field reflect.StructField) (Tags, error) {
	r := reader{owner: owner, field: field, kind: KindOf(field.Type)}
	for _, read := range []func() error{
		r.readPairs, r.readTexts, r.readEnum, r.readFormat,
		r.readCounts, r.readBounds, r.checkOrder, r.readDefault,
	} {
		if err := read(); err != nil {
			return Tags{}, err
		}
	}
	return r.tags, nil
}

// Refuse refuses tags on an embedded struct, which has no member of its own.
func Refuse(owner reflect.Type, field reflect.StructField) error {
	r := reader{owner: owner, field: field}
	if err := r.readPairs(); err != nil {
		return err
	}
	for _, key := range keywords {
		if _, ok := r.tags.pairs[key]; ok {
			return r.newError(key,
				"does nothing on an embedded struct, whose fields are members of their own")
		}
	}
	return nil
}

type reader struct {
	owner reflect.Type
	field reflect.StructField
	kind  Kind
	tags  Tags
}

func (r *reader) newError(key, format string, args ...any) error {
	tag := ""
	if key != "" {
		tag = key + ":" + strconv.Quote(r.tags.pairs[key])
	}
	return &Error{r.owner, r.field.Name, tag, fmt.Sprintf(format, args...)}
}

func (r *reader) readTexts() error {
	for _, key := range keywords {
		if !utf8.ValidString(r.tags.pairs[key]) {
			return r.newError(key, "is not UTF-8")
		}
	}
	r.tags.Title = r.tags.pairs["title"]
	text, ok := r.tags.pairs["jsonschema"]
	if ok && text == "" {
		return r.newError("jsonschema", "is empty; leave it out")
	}
	if pair := pairIn(text); pair != "" {
		return r.newError("jsonschema", "is a description and nothing else: "+
			"make a tag of its own of %q, where it has one, or say it in words", pair)
	}
	r.tags.Description = text
	return nil
}

func (r *reader) readEnum() error {
	list, ok := r.tags.pairs["enum"]
	titles, titled := r.tags.pairs["enumTitles"]
	switch {
	case !ok && titled:
		return r.newError("enumTitles", "enumTitles needs an enum")
	case !ok:
		return nil
	case r.kind != Text && r.kind != Texts:
		return r.newError("enum", "enum is for a string or a []string, not for a %v", r.field.Type)
	}
	r.tags.Values = splitList(list)
	sorted := slices.Sorted(slices.Values(r.tags.Values))
	for i, value := range sorted {
		if value == "" {
			return r.newError("enum", "enum has an empty value")
		}
		if i > 0 && value == sorted[i-1] {
			return r.newError("enum", "lists the value %q twice", value)
		}
	}
	if titled {
		r.tags.Titles = splitList(titles)
		if len(r.tags.Titles) != len(r.tags.Values) {
			return r.newError("enumTitles", "has %d titles for %d values", len(r.tags.Titles),
				len(r.tags.Values))
		}
		if slices.Contains(r.tags.Titles, "") {
			return r.newError("enumTitles", "has an empty title")
		}
	}
	return nil
}

func splitList(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func (r *reader) readFormat() error {
	format, ok := r.tags.pairs["format"]
	switch {
	case !ok:
		return nil
	case r.kind != Text && r.kind != Time || r.tags.Values != nil:
		return r.newError("format", "format is for a string without enum, not for %s",
			r.describeType())
	case !IsFormat(format):
		return r.newError("format", "is none of %s", strings.Join(formats[:], ", "))
	case r.kind == Time && format != "date-time":
		return r.newError("format", "a time.Time has the format date-time")
	}
	r.tags.Format = format
	return nil
}

func (r *reader) readCounts() error {
	text := (r.kind == Text || r.kind == Time) && r.tags.Values == nil
	// an array has a fixed length
	list := (r.kind == Texts || r.kind == List) && deref(r.field.Type).Kind() == reflect.Slice
	for _, count := range []struct {
		key  string
		fits bool
		to   **int
	}{
		{"minLength", text, &r.tags.MinLength}, {"maxLength", text, &r.tags.MaxLength},
		{"minItems", list, &r.tags.MinItems}, {"maxItems", list, &r.tags.MaxItems},
	} {
		s, ok := r.tags.pairs[count.key]
		if !ok {
			continue
		}
		if !count.fits {
			return r.newError(count.key, "%s does not apply to %s", count.key, r.describeType())
		}
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return r.newError(count.key, "is not a count")
		}
		*count.to = new(int(n))
	}
	return nil
}

// readBounds reads minimum and maximum, which may narrow the Go type's range but not widen it.
func (r *reader) readBounds() error {
	for _, bound := range []struct {
		key string
		to  **Number
	}{{"minimum", &r.tags.Minimum}, {"maximum", &r.tags.Maximum}} {
		s, ok := r.tags.pairs[bound.key]
		if !ok {
			continue
		}
		if r.kind != Integer && r.kind != Float {
			return r.newError(bound.key, "%s does not apply to %s", bound.key, r.describeType())
		}
		n, err := ParseNumber(s)
		if err != nil || r.kind == Integer && !n.IsInteger() {
			return r.newError(bound.key, "is not %s, written as JSON writes it", r.kind)
		}
		if reason := n.reasonOutside(r.field.Type); reason != "" {
			return r.newError(bound.key, "%s is %s, but %s", bound.key, n, reason)
		}
		*bound.to = &n
	}
	return nil
}

func (r *reader) checkOrder() error {
	above := func(low, high *int) bool { return low != nil && high != nil && *low > *high }
	t := &r.tags
	switch {
	case above(t.MinLength, t.MaxLength):
		return r.newError("minLength", "minLength is above maxLength")
	case above(t.MinItems, t.MaxItems):
		return r.newError("minItems", "minItems is above maxItems")
	case t.Minimum != nil && t.Maximum != nil && t.Minimum.Compare(*t.Maximum) > 0:
		return r.newError("minimum", "minimum is above maximum")
	}
	return nil
}

func (r *reader) readDefault() error {
	s, ok := r.tags.pairs["default"]
	if !ok {
		return nil
	}
	switch r.kind {
	case Text, Time:
		r.tags.Default = jsonx.AppendText(nil, s)
	case Texts:
		list := []string{}
		if s != "" {
			list = splitList(s)
		}
		r.tags.Default, _ = jsonx.Marshal(list)
	case Boolean:
		if s != "true" && s != "false" {
			return r.newError("default", "is neither true nor false")
		}
		r.tags.Default = []byte(s)
	case Integer, Float:
		n, err := ParseNumber(s)
		if err != nil || r.kind == Integer && !n.IsInteger() {
			return r.newError("default", "is not %s, written as JSON writes it", r.kind)
		}
		r.tags.Default = []byte(s)
		if r.kind == Integer { // Go decoders do not read 1.0 or 1e3
			r.tags.Default = []byte(n.Exact().Num().String())
		}
	default:
		return r.newError("default", "default does not apply to %s", r.describeType())
	}
	return nil
}

func (r *reader) describeType() string {
	switch {
	case r.tags.Values != nil && r.kind == Text:
		return "an enum"
	case deref(r.field.Type).Kind() == reflect.Array:
		return fmt.Sprintf("a %v, whose length is fixed", r.field.Type)
	case r.kind == Other:
		return fmt.Sprintf("a %v", r.field.Type)
	}
	return r.kind.String()
}

// Bounds returns the keywords of the tags that restrict the value.
func (t *Tags) Bounds() []string {
	bounds := slices.Clone(keywords[2:10]) // format to enum
	return slices.DeleteFunc(bounds, func(keyword string) bool {
		_, ok := t.pairs[keyword]
		return !ok
	})
}
