package inspect

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// FillForm renders a form and fills it in again.
func FillForm(schema []byte, given url.Values) (names []string, content json.RawMessage,
	err error) {
	fields, _ := readFields(schema, nil)
	for _, f := range fields {
		names = append(names, f.Name)
	}
	content, err = contentOf(schema, given)
	return names, content, err
}

// ReadWire adds messages in pieces, and returns the kept texts.
func ReadWire(pieces ...[]byte) (texts []string, sizes []int) {
	var l wireLog
	for _, piece := range pieces {
		l.add(0, piece)
	}
	for _, line := range l.list() {
		texts, sizes = append(texts, line.Text), append(sizes, line.Size)
	}
	return texts, sizes
}

// RenderForm describes the inputs of a form, one a line.
func RenderForm(schema []byte, given url.Values) (lines string, flat bool) {
	fields, flat := readFields(schema, given)
	for _, f := range fields {
		lines += fmt.Sprintf("%s %q %q %q %t %t %v\n", f.Name, f.Label, f.Help, f.Value, f.Required,
			f.Multiple, f.Options)
	}
	return lines, flat
}
