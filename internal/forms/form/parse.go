package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/fields"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Parse reads a handler's schema, which it copies. The schema must follow the grammar of
// PrimitiveSchemaDefinition exactly, because clients may refuse or misread anything else. The error
// is an *[Error] that names the field and the keyword.
func Parse(schema []byte, o Options) (*Form, error) {
	if len(o.Omit) > 0 {
		return nil, fieldError(o.Omit[0], "is to be left out: leave it out of the schema")
	}
	p := parser{}
	if err := p.parseForm(schema); err != nil {
		return nil, err
	}
	if err := checkFields(p.fields, o.AllowSecrets); err != nil {
		return nil, err
	}
	return newForm(p.fields, bytes.Clone(schema))
}

// ParsePeer reads the requestedSchema of a server, which it copies. A schema outside the grammar is
// normalized if it has one plain reading; [Form.Schema] returns the result. Other keywords are
// allowed in a flat form: annotations are ignored, and [Form.Accept] enforces rules ("pattern",
// "additionalProperties"), except patterns that cannot be compiled here. An invalid default is
// ignored. Fields that ask for secrets are allowed: the person who sees the form decides.
func ParsePeer(schema []byte) (*Form, error) {
	p := parser{}
	if p.parseForm(schema) == nil && checkFields(p.fields, true) == nil {
		return newForm(p.fields, bytes.Clone(schema))
	}
	if err := checkRaw(schema); err != nil {
		return nil, err
	}
	normal, err := normalize(schema)
	if err != nil {
		return nil, err
	}
	p = parser{loose: true}
	if err := p.parseForm(normal); err != nil {
		return nil, err
	}
	if err := checkFields(p.fields, true); err != nil {
		return nil, err
	}
	f, err := newForm(p.fields, normal)
	if err != nil {
		return nil, err
	}
	if p.beyond {
		if f.extra, err = compileExtra(normal); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// compileExtra compiles a peer's whole schema, for keywords outside the grammar.
func compileExtra(raw []byte) (*schema.Schema, error) {
	// Titled values take a subschema each.
	limits := schema.Limits{MaxBytes: MaxSchema, MaxSubschemas: 2 * MaxValues}
	s, err := schema.Compile(raw, limits)
	if err != nil && (bytes.Contains(raw, []byte(`"pattern"`)) ||
		bytes.Contains(raw, []byte(`"examples"`))) {
		if less := dropUncheckable(raw); len(less) < len(raw) {
			s, err = schema.Compile(less, limits)
		}
	}
	if err != nil {
		return nil, &Error{Reason: err.Error()}
	}
	return s, nil
}

func extraError(err error) *Error {
	if fault, ok := errors.AsType[*schema.Error](err); ok {
		return &Error{Field: fault.Field, Reason: fault.Reason}
	}
	return &Error{Reason: "the answer does not match the schema"}
}

type parser struct {
	loose  bool
	beyond bool // there is a keyword outside the grammar
	fields []field
}

func checkRaw(raw []byte) error {
	if len(raw) > MaxSchema {
		return &Error{Reason: fmt.Sprintf("the schema is larger than %d bytes", MaxSchema)}
	}
	return checkObject("the schema", raw)
}

func checkObject(what string, raw []byte) error {
	if err := jsonx.Check(raw); err != nil {
		return &Error{Reason: what + " is not valid: " + err.Error()}
	}
	if k := jsonx.KindOf(raw); k != jsonx.Object {
		return &Error{Reason: what + " must be an object, got " + k.String()}
	}
	return nil
}

func (p *parser) parseForm(raw []byte) error {
	if err := checkRaw(raw); err != nil {
		return err
	}
	var required, properties []byte
	typed := false
	err := jsonx.Members(raw, func(key, value []byte) error {
		switch string(key) {
		case "type":
			s, err := jsonx.Text(value)
			typed = err == nil && s == "object"
		case "properties":
			properties = value
		case "required":
			required = value
		case "$schema":
			if jsonx.KindOf(value) != jsonx.String {
				return &Error{Reason: `"$schema" must be a string`}
			}
		default:
			return p.refuseUnknown("", key)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !typed:
		return &Error{Reason: `"type" must be "object"`}
	case jsonx.KindOf(properties) != jsonx.Object:
		return &Error{Reason: `"properties" must be an object`}
	}
	if err := jsonx.Members(properties, p.parseProperty); err != nil {
		return err
	}
	return p.parseRequired(required)
}

// refuseUnknown refuses a keyword outside the grammar, or records it in a peer's form.
func (p *parser) refuseUnknown(name string, keyword []byte) error {
	if p.loose {
		p.beyond = true
		return nil
	}
	return fieldError(name,
		"has the keyword "+quote(keyword)+", which the grammar of forms does not have here")
}

func (p *parser) parseRequired(raw []byte) error {
	if raw == nil {
		return nil
	}
	byName := indexByName(p.fields)
	names, err := parseTexts(raw)
	if err != nil {
		return &Error{Reason: `"required" must be an array of strings`}
	}
	for _, name := range names {
		i := searchFields(p.fields, byName, []byte(name))
		if i < 0 {
			return fieldError(name, "is required but not among the properties")
		}
		p.fields[i].required = true
	}
	return nil
}

func (p *parser) parseProperty(key, raw []byte) error {
	if len(p.fields) == MaxFields {
		return &Error{Reason: fmt.Sprintf("has more than %d fields", MaxFields)}
	}
	name := string(key)
	if jsonx.KindOf(raw) != jsonx.Object {
		return fieldError(name, "must be a schema object, got "+jsonx.KindOf(raw).String())
	}
	f := newField(name)
	read := members{}
	err := p.readKeywords(&f, read, raw)
	if err == nil {
		err = f.setKind(read)
	}
	if err == nil {
		err = p.parseKeywords(&f, read)
	}
	if err == nil {
		err = f.checkDefinition()
	}
	if err == nil {
		err = p.setDefault(&f, read["default"])
	}
	if err != nil {
		return fieldError(name, err.Error())
	}
	p.fields = append(p.fields, f)
	return nil
}

// keywordNames are the keywords of fields, except title and description.
var keywordNames = [...]string{
	"type", "format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems",
	"items", "enum", "enumNames", "oneOf", "default",
}

// readKeywords reads a property's keywords into read, its title and description into f.
func (p *parser) readKeywords(f *field, read members, raw []byte) error {
	return jsonx.Members(raw, func(key, value []byte) (err error) {
		switch string(key) {
		case "title":
			f.title, err = p.parseAnnotation("title", value)
		case "description":
			f.description, err = p.parseAnnotation("description", value)
		default:
			i := slices.Index(keywordNames[:], string(key))
			if i < 0 {
				return p.refuseUnknown(f.name, key)
			}
			read[keywordNames[i]] = value // does not copy the key
		}
		return err
	})
}

func (p *parser) parseAnnotation(keyword string, raw []byte) (string, error) {
	s, err := jsonx.Text(raw)
	if err != nil && !p.loose {
		return "", fmt.Errorf("%s must be a string", keyword)
	}
	return s, nil
}

// setKind sets the kind from the type and the presence of choices.
func (f *field) setKind(read members) error {
	name, err := jsonx.Text(read["type"])
	if err != nil {
		return errors.New(`"type" must be a string: one of string, number, integer, boolean, ` +
			`or array for a multi-select`)
	}
	switch name {
	case "string":
		f.kind = text
		if read["enum"] != nil || read["oneOf"] != nil {
			f.kind = choice
		}
	case "integer":
		f.kind = integer
	case "number":
		f.kind = number
	case "boolean":
		f.kind = boolean
	case "array":
		f.kind = choices
	default:
		return fmt.Errorf("is of type %s, but a form is flat: string, number, integer, boolean, "+
			"and arrays to choose from", quote([]byte(name)))
	}
	return nil
}

type keyword struct {
	name string
	fits bool
	read func(raw []byte) error
}

// parseKeywords reads the keywords of the field's kind. Others are outside the grammar.
func (p *parser) parseKeywords(f *field, read members) error {
	numeric := f.kind == integer || f.kind == number
	listed := f.kind == choice && read["enum"] != nil
	keywords := [...]keyword{
		{"format", f.kind == text, func(raw []byte) error { return p.parseFormat(f, raw) }},
		{"minLength", f.kind == text, limitReader(&f.minSize)},
		{"maxLength", f.kind == text, limitReader(&f.maxSize)},
		{"minItems", f.kind == choices, limitReader(&f.minSize)},
		{"maxItems", f.kind == choices, limitReader(&f.maxSize)},
		{"minimum", numeric, func(raw []byte) error { return readBound(&f.minimum, raw) }},
		{"maximum", numeric, func(raw []byte) error { return readBound(&f.maximum, raw) }},
		{"items", f.kind == choices, func(raw []byte) error { return p.parseItems(f, raw) }},
		{"enum", listed, func(raw []byte) (err error) {
			f.values, err = parseValues(raw)
			return err
		}},
		{"enumNames", listed, func(raw []byte) error { return p.parseEnumNames(f, raw) }},
		{"oneOf", f.kind == choice && !listed, func(raw []byte) (err error) {
			f.values, f.titles, err = p.parseTitledValues(raw)
			return err
		}},
	}
	for _, k := range keywords {
		raw := read[k.name]
		if raw == nil {
			continue
		}
		err := error(nil)
		if k.fits {
			err = k.read(raw)
		} else {
			err = p.refuseUnknown(f.name, []byte(k.name))
		}
		if err != nil {
			return withKeyword(err, k.name)
		}
	}
	if f.kind == choices && f.values == nil {
		return errors.New("is an array without \"items\" to choose from")
	}
	return nil
}

// withKeyword adds the keyword to an error. An *[Error] names a keyword already; only its reason is
// returned, because the caller adds the field.
func withKeyword(err error, keyword string) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return errors.New(e.Reason)
	}
	return fmt.Errorf("%s %w", keyword, err)
}

func (p *parser) parseFormat(f *field, raw []byte) error {
	s, err := jsonx.Text(raw)
	switch {
	case err == nil && isFormat(s):
		f.format = s
	case p.loose:
		p.beyond = true
	default:
		return errors.New("is none of email, uri, date and date-time")
	}
	return nil
}

// limitReader returns a function that reads a length or count.
func limitReader(to **int) func(raw []byte) error {
	return func(raw []byte) error {
		n, err := fields.ParseNumber(string(raw))
		if err != nil || !n.IsInteger() || n.Compare("0") < 0 ||
			n.Compare("2147483647") > 0 {
			return errors.New("is not a count")
		}
		*to = new(int(n.Exact().Num().Int64()))
		return nil
	}
}

func readBound(to **fields.Number, raw []byte) error {
	n, err := fields.ParseNumber(string(raw))
	if err != nil {
		return errors.New("is not a number, or is out of range")
	}
	*to = &n
	return nil
}

// setDefault checks and sets the default. An invalid one of a peer is ignored.
func (p *parser) setDefault(f *field, raw []byte) error {
	if raw == nil {
		return nil
	}
	if reason := f.checkValue(f.compileRules(), raw); reason != "" {
		if p.loose {
			return nil
		}
		return fmt.Errorf("default %s", reason)
	}
	f.fallback = json.RawMessage(f.appendValue(nil, raw))
	return nil
}

func quote(word []byte) string { return errtext.Quote(string(word), 64) }
