package schema

import (
	"errors"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Accepts reports whether a document is found valid on its bytes alone.
func (s *Schema) Accepts(doc []byte) bool {
	c := checker{evaluator: evaluator{left: s.maxSteps},
		bytes: maxPasses*int64(len(doc)) + freeBytes}
	f := c.checkRaw(s.plan, doc)
	return c.decodes == 0 && !c.passedOver() && c.reportFault(f) == nil
}

// Reference is what the compiler's own validator says about a decoded document, nil if it is valid.
// It says so of all faults at once, and the first is chosen afterwards.
func (s *Schema) Reference(v any) error {
	err := s.root.keywords.Validate(v)
	var faults *jsonschema.ValidationError
	if errors.As(err, &faults) {
		return firstFault(faults)
	}
	return err
}

// Steps returns what checking a document takes of the budget, -1 if it is more than there is.
func (s *Schema) Steps(doc []byte) int64 {
	c := checker{evaluator: evaluator{left: s.maxSteps},
		bytes: maxPasses*int64(len(doc)) + freeBytes}
	c.checkRaw(s.plan, doc)
	return max(s.maxSteps-c.left, -1)
}
