package form

import (
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// Accept checks the content of an accepted answer and returns it as a Go decoder should see it: defaults filled in for
// absent members, members that the form does not have dropped, members in the form's order, integers without fraction or exponent.
//
// No bytes at all, an absent content, count as {}. The error is an *[Error] about the first field, in the form's order, that is at
// fault. The result does not alias content.
func (f *Form) Accept(content []byte) (json.RawMessage, error) {
	var few [fewFields][]byte
	values := few[:]
	if len(f.fields) > fewFields {
		values = make([][]byte, len(f.fields))
	}
	if err := f.sort(content, values); err != nil {
		return nil, err
	}
	size := len(content) + 2
	for i := range f.fields {
		size += len(f.fields[i].fallback) + len(f.fields[i].key) + 1
	}
	out := append(make([]byte, 0, size), '{')
	for i := range f.fields {
		field, raw := &f.fields[i], values[i]
		if raw == nil {
			raw = field.fallback // has been checked
		} else if reason := field.check(raw); reason != "" {
			return nil, fieldError(field.name, reason)
		}
		if raw == nil {
			if field.required {
				return nil, fieldError(field.name, "is required")
			}
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = field.appendValue(append(out, field.key...), raw)
	}
	out = append(out, '}')
	if f.extra != nil {
		if err := f.extra.Validate(out); err != nil {
			return nil, extraError(err)
		}
	}
	return out, nil
}

// sort finds the members of content that the form has, each under the number of its field.
func (f *Form) sort(content []byte, values [][]byte) error {
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
		if i := f.find(key); i >= 0 {
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
	if err := f.sort(content, values); err != nil {
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
