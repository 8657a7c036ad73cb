package inspect

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/rondo-mcp/rondo/internal/errtext"
	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A field is an input of a rendered form.
type field struct {
	Name, Label, Help string
	Type              string // of its schema
	Value             string
	Required          bool
	Multiple          bool
	Options           []option // nil: a text is entered
}

type option struct {
	Value, Label string
	Selected     bool
}

// fieldPrefix keeps the names of fields apart from those of the page.
const fieldPrefix = "field."

// A property is what of the schema of a form's field is rendered.
type property struct {
	Type, Title, Description, Format string
	Default                          any
	Enum, EnumNames                  []string
	OneOf                            []choice
	Items                            struct {
		Enum  []string
		AnyOf []choice
	}
}

type choice struct{ Const, Title string }

// readFields returns the inputs for a schema, filled with what was given before or else with the
// defaults. It reports false for schemas that are no flat form.
func readFields(schema json.RawMessage, given url.Values) (fields []field, ok bool) {
	read, err := form.ParsePeer(schema)
	if err != nil {
		return nil, false
	}
	var parsed struct {
		Properties json.RawMessage
		Required   []string
	}
	if json.Unmarshal(read.Schema(), &parsed) != nil {
		return nil, false
	}
	if parsed.Properties == nil {
		return nil, true
	}
	err = jsonx.Members(parsed.Properties, func(key, value []byte) error {
		name, err := jsonx.Text(key)
		if err != nil {
			name = string(key)
		}
		var p property
		if err := json.Unmarshal(value, &p); err != nil {
			return err
		}
		f := p.toField(name, given)
		f.Required = slices.Contains(parsed.Required, name)
		fields = append(fields, f)
		return nil
	})
	return fields, err == nil
}

func (p *property) toField(name string, given url.Values) field {
	f := field{Name: fieldPrefix + name, Type: p.Type, Label: errtext.Mark(p.Title, maxShown),
		Help: errtext.Mark(p.Description, maxShown), Multiple: p.Type == "array"}
	if f.Label == "" {
		f.Label = name
	}
	if f.Help == "" && len(p.Enum)+len(p.OneOf) == 0 && !f.Multiple {
		f.Help = p.Type
		if p.Format != "" {
			f.Help = p.Format
		}
	}
	values := given[f.Name]
	if len(given) == 0 && p.Default != nil {
		list, many := p.Default.([]any)
		if !many {
			list = []any{p.Default}
		}
		for _, v := range list {
			values = append(values, fmt.Sprint(v))
		}
	}
	if len(values) > 0 {
		f.Value = values[0]
	}
	add := func(value, label string) {
		f.Options = append(f.Options, option{value, errtext.Mark(label, maxShown),
			slices.Contains(values, value)})
	}
	if p.Type == "boolean" {
		p.Enum, p.EnumNames = []string{"true", "false"}, []string{"yes", "no"}
	}
	for i, value := range append(p.Enum, p.Items.Enum...) {
		label := value
		if i < len(p.EnumNames) {
			label = p.EnumNames[i]
		}
		add(value, label)
	}
	for _, c := range append(p.OneOf, p.Items.AnyOf...) {
		add(c.Const, c.Title)
	}
	return f
}

// contentOf returns what was entered, as a JSON object: the text of the field "json" where there
// is one, and else the fields, of which empty ones are left out.
func contentOf(schema json.RawMessage, given url.Values) (json.RawMessage, error) {
	if raw := given.Get("json"); raw != "" {
		return json.RawMessage(raw), jsonx.Check([]byte(raw))
	}
	fields, ok := readFields(schema, given)
	if !ok {
		return json.RawMessage("{}"), nil
	}
	content := map[string]any{}
	for _, f := range fields {
		name := f.Name[len(fieldPrefix):]
		switch values := given[f.Name]; {
		case f.Multiple && len(values) > 0:
			content[name] = values
		case f.Type != "string" && f.Value != "" && jsonx.Check([]byte(f.Value)) == nil:
			content[name] = json.RawMessage(f.Value)
		case !f.Multiple && f.Value != "":
			content[name] = f.Value
		}
	}
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	parsed, err := form.ParsePeer(schema)
	if err != nil {
		return nil, err
	}
	return parsed.Accept(raw)
}
