package form

import (
	"bytes"
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Accept checks the content of an accepted answer and normalizes it for a Go decoder: absent
// members get their defaults, unknown members are dropped, members are in form order, and integers
// have neither fraction nor exponent.
//
// Optional members are read leniently: null, or "" if the schema refuses it, is an emptied field:
// absent, no default. Numbers and booleans may be strings. The schema applies to the result.
//
// Empty content counts as {}. The error is an *[Error] about the first invalid field in form order.
// Normalized content is returned unchanged, so clone the result before modifying it. Do not pass
// the result to Accept again: an emptied field would get its default.
func (f *Form) Accept(content []byte) (json.RawMessage, error) {
	return f.acceptContent(content, false)
}

// Check returns an error if content itself breaks the schema, without the leniency of Accept.
func (f *Form) Check(content []byte) error {
	_, err := f.acceptContent(content, true)
	return err
}

func (f *Form) acceptContent(content []byte, exactly bool) (json.RawMessage, error) {
	var few [fewFields][]byte
	values := few[:]
	if len(f.fields) > fewFields {
		values = make([][]byte, len(f.fields))
	}
	if err := f.sortMembers(content, values); err != nil {
		return nil, err
	}
	for i := range f.fields {
		value, reason := f.readValue(i, values[i], exactly)
		if reason != "" {
			return nil, fieldError(f.fields[i].name, reason)
		}
		values[i] = value
	}
	return f.finishContent(content, values, exactly)
}

// readValue returns the value of field i in the answer, or nil, and the rule that the value breaks.
func (f *Form) readValue(i int, sent []byte, exactly bool) (value []byte, reason string) {
	field := &f.fields[i]
	value = sent
	if sent == nil {
		value = field.fallback // already checked
	} else if reason = field.checkValue(f.rulesOf(i), sent); reason != "" &&
		!field.required && !exactly {
		value, reason = field.readEntered(f.rulesOf(i), sent, reason)
	}
	if value == nil && field.required {
		reason = "is required"
	}
	return value, reason
}

// Faults returns one fault for each invalid field, in form order, and none if and only if
// [Form.Accept] succeeds. Keywords outside the grammar are only checked if all fields are valid.
func (f *Form) Faults(content []byte) (faults []Fault) {
	values := make([][]byte, len(f.fields))
	if f.sortMembers(content, values) == nil {
		for i := range f.fields {
			if _, reason := f.readValue(i, values[i], false); reason != "" {
				faults = append(faults, f.fields[i].explainFault(reason))
			}
		}
	}
	if len(faults) == 0 {
		if _, err := f.Accept(content); err != nil {
			faults = append(faults, f.Explain(err))
		}
	}
	return faults
}

// finishContent encodes values and checks them against keywords outside the grammar.
func (f *Form) finishContent(content []byte, values [][]byte,
	exactly bool) (json.RawMessage, error) {
	left := int64(0)
	if f.extra != nil {
		left = f.extra.Steps()
	}
	for {
		out := json.RawMessage(content)
		if !f.isWritten(content, values) {
			out = f.appendValues(values)
		}
		if f.extra == nil {
			return out, nil
		}
		err := f.extra.ValidateWithin(out, &left)
		if err == nil {
			return out, nil
		}
		fault := extraError(err)
		i := f.findField([]byte(fault.Field))
		if exactly || i < 0 || f.fields[i].required || string(values[i]) != `""` {
			return nil, fault
		}
		values[i] = nil
	}
}

// isWritten reports whether content, a valid object, equals appendValues(values).
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
		found = found && bytes.HasPrefix(rest, field.key) && !field.needsRewrite(values[i])
		if found {
			rest, found = bytes.CutPrefix(rest[len(field.key):], values[i])
		}
	}
	return found && len(rest) == 1 && rest[0] == '}'
}

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

// sortMembers sets values[i] to the member of field i.
func (f *Form) sortMembers(content []byte, values [][]byte) error {
	if len(content) == 0 {
		return nil
	}
	if err := checkObject("the answer", content); err != nil {
		return err
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
