package form

import (
	"strconv"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// encode writes the schema of fields in their order, with its members in a fixed order.
func encode(fields []field) []byte {
	b := []byte(`{"type":"object","properties":{`)
	for i := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, fields[i].key...)
		b = fields[i].appendSchema(b)
	}
	b = append(b, '}')
	var required []string
	for i := range fields {
		if fields[i].required {
			required = append(required, fields[i].name)
		}
	}
	if required != nil {
		b = appendTexts(append(b, `,"required":`...), required)
	}
	return append(b, '}')
}

func (f *field) appendSchema(b []byte) []byte {
	b = append(b, `{"type":`...)
	b = jsonx.AppendText(b, f.kind.typeName())
	b = appendMember(b, "title", f.title)
	b = appendMember(b, "description", f.description)
	b = appendMember(b, "format", f.format)
	if f.kind == choices {
		b = appendLimit(b, "minItems", f.minSize)
		b = appendLimit(b, "maxItems", f.maxSize)
		b = append(b, `,"items":{`...)
		b = append(f.appendChoices(b, "anyOf"), '}')
	} else {
		b = appendLimit(b, "minLength", f.minSize)
		b = appendLimit(b, "maxLength", f.maxSize)
	}
	if f.minimum != nil {
		b = append(append(b, `,"minimum":`...), *f.minimum...)
	}
	if f.maximum != nil {
		b = append(append(b, `,"maximum":`...), *f.maximum...)
	}
	if f.kind == choice {
		b = f.appendChoices(append(b, ','), "oneOf")
	}
	if f.fallback != nil {
		b = append(append(b, `,"default":`...), f.fallback...)
	}
	return append(b, '}')
}

// appendChoices writes the values: with titles as constants under keyword, otherwise as an enum.
func (f *field) appendChoices(b []byte, keyword string) []byte {
	if f.titles == nil {
		if f.kind == choices {
			b = append(b, `"type":"string",`...)
		}
		return appendTexts(append(b, `"enum":`...), f.values)
	}
	b = append(jsonx.AppendText(b, keyword), ":["...)
	for i, value := range f.values {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonx.AppendText(append(b, `{"const":`...), value)
		b = append(jsonx.AppendText(append(b, `,"title":`...), f.titles[i]), '}')
	}
	return append(b, ']')
}

func appendTexts(b []byte, list []string) []byte {
	text, _ := jsonx.Marshal(list)
	return append(b, text...)
}

func appendMember(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return jsonx.AppendText(append(jsonx.AppendText(append(b, ','), name), ':'), value)
}

func appendLimit(b []byte, name string, l *int) []byte {
	if l == nil {
		return b
	}
	b = append(jsonx.AppendText(append(b, ','), name), ':')
	return strconv.AppendInt(b, int64(*l), 10)
}
