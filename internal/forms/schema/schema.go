package schema

import (
	"encoding/json"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Schema is a compiled schema. It is immutable; its methods may be called at the same time.
type Schema struct {
	raw      json.RawMessage
	root     *node
	plan     *plan
	maxSteps int64
	bounded  bool // see Limits.BoundIntegers
}

// Raw returns the bytes that were compiled, unchanged. They must not be modified.
func (s *Schema) Raw() json.RawMessage { return s.raw }

// Validate checks a raw document. One of no bytes, an absent member, is validated as {}. The error
// is an *[Error], also for a document that is not JSON or has a member twice.
func (s *Schema) Validate(doc []byte) error {
	if len(doc) == 0 {
		doc = []byte("{}")
	}
	if err := jsonx.Check(doc); err != nil {
		return &Error{Reason: err.Error()}
	}
	return s.ValidateChecked(doc)
}

// ValidateChecked is [Schema.Validate] for a document that has passed jsonx.Check, or is part of
// one that has, and is not empty. It decodes only values that the plan does not accept.
func (s *Schema) ValidateChecked(doc []byte) error {
	c := checker{
		evaluator: evaluator{left: s.maxSteps, bounded: s.bounded},
		bytes:     maxPasses*int64(len(doc)) + freeBytes,
	}
	if f := c.checkRaw(s.plan, doc); !c.passedOver() {
		return c.reportFault(f)
	}
	var v any
	if err := jsonx.UnmarshalNumbers(doc, &v); err != nil {
		return &Error{Reason: err.Error()}
	}
	return s.ValidateValue(v)
}

// ValidateValue checks a decoded document: nil, bool, string, json.Number, []any and
// map[string]any. The error is an *[Error].
func (s *Schema) ValidateValue(v any) error {
	if err := checkValue(v, 0); err != nil {
		return &Error{Reason: err.Error()}
	}
	e := evaluator{left: s.maxSteps, bounded: s.bounded}
	return e.reportFault(e.evaluateValue(s.root, v, nil))
}

// reportFault returns the error for the fault that a walk found, nil for none.
func (e *evaluator) reportFault(f *fault) error {
	switch {
	case e.left < 0:
		return &Error{
			Reason: "the document is too large or too deep to be checked against the schema",
		}
	case e.broken:
		return &Error{Reason: "cannot be checked against the schema"}
	case f != nil:
		return f.toError()
	}
	return nil
}
