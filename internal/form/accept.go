package form

import (
	"bytes"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// Accept checks the content of an accepted answer and returns it as a Go decoder should see it: defaults filled in for
// absent members, members that the form does not have dropped, members in the form's order, integers without fraction or exponent.
//
// No bytes at all, an absent content, count as {}. The error is an *[Error] about the first field, in the form's order, that is at
// fault. Content that is as it should be already is returned itself: whoever may change it has to clone it first.
func (f *Form) Accept(content []byte) (json.RawMessage, error) {
	var few [fewFields][]byte
	values := few[:]
	if len(f.fields) > fewFields {
		values = make([][]byte, len(f.fields))
	}
	if err := f.sortMembers(content, values); err != nil {
		return nil, err
	}
	for i := range f.fields {
		field := &f.fields[i]
		if values[i] == nil {
			values[i] = field.fallback // has been checked
		} else if reason := field.checkValue(f.rulesOf(i), values[i]); reason != "" {
			return nil, fieldError(field.name, reason)
		}
		if values[i] == nil && field.required {
			return nil, fieldError(field.name, "is required")
		}
	}
	out := content
	if !f.isWritten(content, values) {
		out = f.appendValues(values)
	}
	if f.extra != nil {
		if err := f.extra.Validate(out); err != nil {
			return nil, extraError(err)
		}
	}
	return out, nil
}

// isWritten reports whether content, which is a valid object, is what write makes of values.
func (f *Form) isWritten(content []byte, values [][]byte) bool {
	rest, found := bytes.CutPrefix(content, []byte{'{'})
	for i, first := 0, true; found && i < len(f.fields); i++ {
		field := &f.fields[i]
		if values[i] == nil {
			continue
		}
		if !first {
			rest, found = bytes.CutPrefix(rest, []byte{','})
		}
		first = false
		if found = found && bytes.HasPrefix(rest, field.key) && !field.needsRewrite(values[i]); found {
			rest, found = bytes.CutPrefix(rest[len(field.key):], values[i])
		}
	}
	return found && len(rest) == 1 && rest[0] == '}'
}

// appendValues makes an object of values, each under the number of its field.
func (f *Form) appendValues(values [][]byte) []byte {
	size := len("{}")
	for i, value := range values {
		if value != nil {
			size += len(f.fields[i].key) + len(value) + len(",")
		}
	}
	out := append(make([]byte, 0, size), '{')
	for i, value := range values {
		if value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = f.fields[i].appendValue(append(out, f.fields[i].key...), value)
	}
	return append(out, '}')
}

// sortMembers finds the members of content that the form has, each under the number of its field.
func (f *Form) sortMembers(content []byte, values [][]byte) error {
	if len(content) == 0 {
		return nil
	}
	if err := jsonx.Check(content); err != nil {
		return &Error{Reason: "the answer is not valid: " + err.Error()}
	}
	if k := jsonx.KindOf(content); k != jsonx.Object {
		return &Error{Reason: "the answer must be an object, got " + k.String()}
	}
	err := jsonx.Members(content, func(key, value []byte) error {
		if i := f.findField(key); i >= 0 {
			values[i] = value
		}
		return nil
	})
	if err != nil {
		return &Error{Reason: "the answer is not valid: " + err.Error()}
	}
	return nil
}

// Defaults fills in defaults for absent members and does nothing else: members are neither checked nor dropped. It is
// for a client, which must not judge what its person typed before showing it. No bytes at all count as {}. The error is an *[Error]
// for what is no JSON object. The result does not alias content.
func (f *Form) Defaults(content []byte) (json.RawMessage, error) {
	values := make([][]byte, len(f.fields))
	if err := f.sortMembers(content, values); err != nil {
		return nil, err
	}
	out, empty := []byte{'{'}, true
	add := func(key []byte, raw []byte) {
		if !empty {
			out = append(out, ',')
		}
		empty = false
		out = append(append(out, key...), raw...)
	}
	if len(content) > 0 {
		var quoted []byte
		err := jsonx.Members(content, func(key, value []byte) error {
			quoted = append(jsonx.AppendTextBytes(quoted[:0], key), ':')
			add(quoted, value)
			return nil
		})
		if err != nil {
			return nil, &Error{Reason: "the answer is not valid: " + err.Error()}
		}
	}
	for i := range f.fields {
		if values[i] == nil && f.fields[i].fallback != nil {
			add(f.fields[i].key, f.fields[i].fallback)
		}
	}
	return append(out, '}'), nil
}
