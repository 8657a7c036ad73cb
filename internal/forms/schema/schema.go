package schema

import (
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// Schema is a compiled schema. It is immutable; methods may be called concurrently.
type Schema struct {
	raw      json.RawMessage
	root     *jsonschema.Schema
	sets     valueSets
	flat     bool // see isFlat
	maxSteps int64
	bounded  bool // see Limits.BoundIntegers
}

// Raw returns the compiled bytes, which must not be modified.
func (s *Schema) Raw() json.RawMessage { return s.raw }

// Validate checks a document. An empty document, which means an absent member, counts as {}. The
// error is an *[Error], also for invalid JSON and duplicate members.
func (s *Schema) Validate(doc []byte) error {
	left := s.maxSteps
	return s.ValidateWithin(doc, &left)
}

// Steps is the budget of one document, for [Schema.ValidateWithin].
func (s *Schema) Steps() int64 { return s.maxSteps }

// ValidateWithin is [Schema.Validate] with a budget shared between documents.
func (s *Schema) ValidateWithin(doc []byte, left *int64) error {
	if len(doc) == 0 {
		doc = []byte("{}")
	}
	if err := jsonx.Check(doc); err != nil {
		return &Error{Reason: err.Error()}
	}
	if s.acceptsBytes(doc) {
		return nil
	}
	return s.validateDecoded(doc, left)
}

// ValidateChecked is [Schema.Validate] for a document that is not empty and has passed jsonx.Check,
// or is part of checked JSON. It decodes only documents not found valid on their bytes.
func (s *Schema) ValidateChecked(doc []byte) error {
	if s.acceptsBytes(doc) {
		return nil
	}
	left := s.maxSteps
	return s.validateDecoded(doc, &left)
}

func (s *Schema) validateDecoded(doc []byte, left *int64) error {
	if err := checkNumbers(doc); err != nil {
		return &Error{Reason: err.Error()}
	}
	if kind := jsonx.KindOf(doc); kind != jsonx.Number && !hasKind(s.root.Types, kind) {
		f := fault{schema: s.root, keyword: "type", detail: kind.String()}
		return f.toError()
	}
	var v any
	if err := jsonx.UnmarshalNumbers(doc, &v); err != nil {
		return &Error{Reason: err.Error()}
	}
	w := s.newWalker(*left)
	f := w.evaluate(s.root, v, false)
	if *left = w.left; w.left < 0 {
		return &Error{
			Reason: "the document is too large or too deep to be checked against the schema",
		}
	}
	if f != nil {
		return f.toError()
	}
	return nil
}

func (s *Schema) acceptsBytes(doc []byte) bool {
	w := s.newWalker(s.maxSteps / flatShare)
	w.quiet = 1
	return s.flat && w.acceptsBytes(s.root, doc)
}

func (s *Schema) newWalker(steps int64) walker {
	return walker{left: steps, sets: s.sets, bounded: s.bounded}
}
