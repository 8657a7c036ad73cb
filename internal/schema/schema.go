package schema

import (
	"encoding/json"
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/jsonx"
)

// Schema is a compiled schema. It is immutable; its methods may be called at the same time.
type Schema struct {
	raw      json.RawMessage
	compiled *jsonschema.Schema
	root     *node
	plan     *plan
	maxSteps int
}

// Raw returns the bytes that were compiled, unchanged. They must not be modified.
func (s *Schema) Raw() json.RawMessage { return s.raw }

// Validate checks a raw document. One of no bytes, an absent member, is validated as {}. The error is an *[Error], also
// for a document that is not JSON or has a member twice.
func (s *Schema) Validate(doc []byte) error {
	if len(doc) == 0 {
		doc = []byte("{}")
	}
	if err := jsonx.Check(doc); err != nil {
		return &Error{Reason: err.Error()}
	}
	return s.ValidateChecked(doc)
}

// ValidateChecked is [Schema.Validate] for a document that has passed jsonx.Check, or is part of something that has, and is not
// empty. Most schemas of arguments need not decode it, see plan.
func (s *Schema) ValidateChecked(doc []byte) error {
	if s.accepts(doc) {
		return nil
	}
	var v any
	if err := jsonx.UnmarshalNumbers(doc, &v); err != nil {
		return &Error{Reason: err.Error()}
	}
	return s.ValidateValue(v)
}

// ValidateValue checks a decoded document: nil, bool, string, json.Number, []any and map[string]any. The error is an *[Error].
func (s *Schema) ValidateValue(v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			// The validator is a third party's and the document a stranger's. What it said may repeat the document.
			err = &Error{Reason: "cannot be checked against the schema"}
		}
	}()
	if err := checkValue(v, 0); err != nil {
		return &Error{Reason: err.Error()}
	}
	if !affordable(s.root, v, s.maxSteps) {
		return &Error{Reason: "the document is too large or too deep to be checked against the schema"}
	}
	err = s.compiled.Validate(v)
	if err == nil {
		return nil
	}
	var faults *jsonschema.ValidationError
	if errors.As(err, &faults) {
		return firstFault(faults)
	}
	return &Error{Reason: "does not match the schema"}
}
