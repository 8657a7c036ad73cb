// Package htmlform turns forms into HTML inputs, and a browser's submission into answers.
package htmlform

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const (
	prefix    = "field." // separates fields from the page's own inputs
	maxLabel  = 4 << 10  // bytes of a label or description
	maxRadios = 7        // above this, a select is used
)

// A Form is a form for a page.
type Form struct {
	Fields []Field
	Fault  string // of the whole answer

	form  *form.Form
	given url.Values
}

// A Field is an input of a page. Its texts have passed [Text], its values have not.
type Field struct {
	ID          string // unique on the page
	Name        string // of the input
	Label, Help string
	// Input is radio, checkbox (of which several may be checked), select, textarea, or an input
	// type: text, number, email, url or date.
	Input     string
	Value     string
	Min, Max  string // of a number; may be empty
	Required  bool
	Enforced  bool // the browser can check Required
	Clearable bool // needs an option for no answer
	Chosen    bool // an option is selected
	Multiple  bool
	Options   []Option // nil for a text input
	Fault     string   // the error in the input

	property
	name string // of the property
}

// An Option is a choice of a field.
type Option struct {
	Value, Label string
	Selected     bool
}

// Described returns the ids of the input's descriptions, for aria-describedby.
func (f Field) Described() string {
	var ids []string
	if f.Help != "" {
		ids = append(ids, f.ID+"-help")
	}
	if f.Fault != "" {
		ids = append(ids, f.ID+"-fault")
	}
	return strings.Join(ids, " ")
}

// A property is the rendered part of a field's schema.
type property struct {
	Type        string            `json:"type"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Format      string            `json:"format"`
	Default     json.RawMessage   `json:"default"`
	Minimum     json.RawMessage   `json:"minimum"`
	Maximum     json.RawMessage   `json:"maximum"`
	MinLength   *int              `json:"minLength"`
	MaxLength   *int              `json:"maxLength"`
	MinItems    *int              `json:"minItems"`
	MaxItems    *int              `json:"maxItems"`
	Enum        []json.RawMessage `json:"enum"`
	EnumNames   []string          `json:"enumNames"`
	OneOf       []choice          `json:"oneOf"`
	Items       struct {
		Enum  []json.RawMessage `json:"enum"`
		AnyOf []choice          `json:"anyOf"`
	} `json:"items"`
}

type choice struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// New returns a form filled in with given, or with the defaults if given is empty.
func New(f *form.Form, given url.Values) (*Form, error) {
	var parsed struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	h := &Form{form: f, given: given}
	if err := jsonx.Unmarshal(f.Schema(), &parsed); err != nil || parsed.Properties == nil {
		return h, err
	}
	err := jsonx.Members(parsed.Properties, func(key, value []byte) error {
		name := string(key)
		field := Field{name: name, Name: prefix + name, ID: "f" + strconv.Itoa(len(h.Fields)),
			Required: slices.Contains(parsed.Required, name)}
		err := jsonx.Unmarshal(value, &field.property)
		if err == nil {
			field.fill(given)
			h.Fields = append(h.Fields, field)
		}
		return err
	})
	return h, err
}

func (f *Field) fill(given url.Values) {
	f.Multiple = f.Type == "array"
	f.Label = Text(f.Title, maxLabel)
	if strings.TrimSpace(f.Label) == "" {
		f.Label = Text(f.name, maxLabel)
	}
	values, _ := f.sent(given)
	if len(given) == 0 && f.Default != nil {
		values = readTexts(f.Default)
	}
	// A default that does not read as it would be sent is left out.
	if len(values) > 0 && (len(given) > 0 || Text(values[0], len(values[0])) == toLF(values[0])) {
		f.Value = values[0]
	}
	f.Min, f.Max = string(f.Minimum), string(f.Maximum)
	f.addOptions(values)
	f.Input = f.chooseInput()
	f.Help = Text(strings.TrimSpace(f.Description+" "+f.hint()), maxLabel)
}

// The method sent returns a field's submitted values. Browsers send line ends as CRLF.
func (f *Field) sent(given url.Values) (values []string, present bool) {
	if values, present = given[f.Name]; !present {
		values, present = given[strings.ReplaceAll(toLF(f.Name), "\n", "\r\n")]
	}
	return values, present
}

func toLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

func readTexts(raw json.RawMessage) (texts []string) {
	if jsonx.KindOf(raw) != jsonx.Array {
		return []string{readText(raw)}
	}
	_ = jsonx.Elements(raw, func(_ int, value []byte) error {
		texts = append(texts, readText(value))
		return nil
	})
	return texts
}

// readText returns the input for a value.
func readText(raw []byte) string {
	if text, err := jsonx.Text(raw); err == nil {
		return text
	}
	return string(raw)
}

func (f *Field) addOptions(values []string) {
	empty := false
	add := func(value, label string) {
		selected := slices.ContainsFunc(values, func(v string) bool {
			return toLF(v) == toLF(value)
		})
		f.Chosen, empty = f.Chosen || selected, empty || value == ""
		label = Text(cmp.Or(label, `""`), maxLabel)
		f.Options = append(f.Options, Option{value, label, selected})
	}
	if f.Type == "boolean" {
		add("true", "yes")
		add("false", "no")
	} else {
		for i, raw := range append(f.Enum, f.Items.Enum...) {
			label := readText(raw)
			if i < len(f.EnumNames) {
				label = f.EnumNames[i]
			}
			add(readText(raw), label)
		}
	}
	for _, c := range append(f.OneOf, f.Items.AnyOf...) {
		if c.Const != nil {
			add(readText(c.Const), c.Title)
		}
	}
	f.Clearable = f.Options != nil && !f.Multiple && !f.Required && !empty
	f.Enforced = f.Required && !f.Multiple && !empty
}

func (f *Field) chooseInput() string {
	switch {
	case f.Multiple:
		return "checkbox"
	case len(f.Options) > maxRadios:
		return "select"
	case f.Options != nil:
		return "radio"
	case f.Type == "integer" || f.Type == "number":
		return "number"
	case f.Format == "email" || f.Format == "date":
		return f.Format
	case f.Format == "uri":
		return "url"
	case strings.ContainsAny(f.Value, "\r\n") || f.MaxLength != nil && *f.MaxLength > 200:
		return "textarea"
	}
	return "text"
}

func (f *Field) hint() string {
	if f.Options != nil && !f.Multiple {
		return ""
	}
	var hints []string
	add := func(word, limit, unit string) {
		if limit == "1" {
			unit = strings.TrimSuffix(unit, "s")
		}
		if limit != "" {
			hints = append(hints, word+limit+unit)
		}
	}
	add("", map[string]string{"integer": "a whole number", "number": "a number"}[f.Type], "")
	add("", map[string]string{"email": "an email address", "date": "a date, such as 2026-01-31",
		"date-time": "a date and a time, such as 2026-01-31T15:04:05Z",
		"uri":       "a whole address, such as https://example.com/page"}[f.Format], "")
	add("at least ", f.Min, "")
	add("at most ", f.Max, "")
	add("at least ", countOf(f.MinLength), " characters")
	add("at most ", countOf(f.MaxLength), " characters")
	add("at least ", countOf(f.MinItems), " of them")
	add("at most ", countOf(f.MaxItems), " of them")
	if len(hints) == 0 {
		return ""
	}
	return "(" + strings.Join(hints, ", ") + ")"
}

func countOf(limit *int) string {
	if limit == nil || *limit == 0 {
		return ""
	}
	return strconv.Itoa(*limit)
}

// Content returns the answer as [form.Form.Accept] returns it. On error the fields have faults. A
// field that was not sent gets its default. One that was sent empty is an emptied field without
// default, and an error if required.
func (h *Form) Content() (json.RawMessage, error) {
	content, _, err := h.accept()
	return content, err
}

// Answer is [Form.Content] as input for another Accept: an emptied field with a default is null.
func (h *Form) Answer() (json.RawMessage, error) {
	content, entered, err := h.accept()
	if err != nil {
		return nil, err
	}
	again, err := h.form.Accept(content)
	if err != nil || !bytes.Equal(again, content) {
		return entered, nil
	}
	return content, nil
}

// accept returns the result of [form.Form.Accept], and its input.
func (h *Form) accept() (answer, entered json.RawMessage, err error) {
	content, missing := map[string]any{}, error(nil)
	for i := range h.Fields {
		f := &h.Fields[i]
		value, given := f.read(h.given)
		switch {
		case !given:
		case value == nil && f.Required:
			f.Fault = f.requiredWords()
			if missing == nil {
				missing = &form.Error{Field: f.name, Reason: "is required"}
			}
		default:
			content[f.name] = value
		}
	}
	if entered, err = json.Marshal(content); err != nil {
		return nil, nil, err
	}
	answer, err = h.form.Accept(entered)
	if err == nil && missing == nil {
		return answer, entered, nil
	}
	for _, fault := range h.form.Faults(entered) {
		i := slices.IndexFunc(h.Fields, func(f Field) bool { return f.name == fault.Field })
		switch {
		case i < 0:
			h.Fault = fault.Words
		case fault.Rule == form.RuleRequired:
			h.Fields[i].Fault = h.Fields[i].requiredWords()
		case h.Fields[i].Fault == "":
			h.Fields[i].Fault = fault.Words
		}
	}
	return nil, nil, cmp.Or(err, missing)
}

func (f *Field) requiredWords() string { return errtext.Mark(f.Label, 80) + " is required." }

// read returns the entered value, which may be nil.
func (f *Field) read(given url.Values) (value any, entered bool) {
	values, present := f.sent(given)
	if !present {
		return nil, false
	}
	if f.Multiple {
		return f.readChoices(values), true
	}
	text, isOption := f.findOption(values[0])
	if f.Type != "string" || f.Format != "" {
		text = strings.TrimSpace(text)
	}
	switch {
	case text == "" && !isOption:
		return nil, true
	case f.Type != "string" && jsonx.Check([]byte(text)) == nil:
		return json.RawMessage(text), true
	}
	return text, true
}

func (f *Field) findOption(sent string) (text string, found bool) {
	text = toLF(sent)
	for _, o := range f.Options {
		if toLF(o.Value) == text {
			return o.Value, true
		}
	}
	return text, false
}

// readChoices returns the checked values without the empty one that marks the field as present.
func (f *Field) readChoices(values []string) any {
	if len(values) > 0 && values[0] == "" {
		values = values[1:]
	}
	list := make([]string, len(values))
	for i, v := range values {
		list[i], _ = f.findOption(v)
	}
	if len(list) == 0 && !f.Required && (f.Default == nil || f.MinItems != nil && *f.MinItems > 0) {
		return nil
	}
	return list
}
