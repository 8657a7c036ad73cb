package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

func (s *Schema) Accepts(doc []byte) bool { return s.acceptsBytes(doc) }

// ValidateDecoded checks a JSON document without the check on its bytes.
func (s *Schema) ValidateDecoded(doc []byte) error {
	left := s.maxSteps
	return s.validateDecoded(doc, &left)
}

// Walk walks a decoded document. It returns the steps taken, or -1 past the budget, and the fault
// as a path and a keyword, or "" for a valid document.
func (s *Schema) Walk(v any) (steps int64, fault string) {
	w := s.newWalker(s.maxSteps)
	f := w.evaluate(s.root, v, false)
	if f == nil || w.left < 0 {
		return max(s.maxSteps-w.left, -1), ""
	}
	return s.maxSteps - w.left, f.toError().Field + " " + f.keyword
}

// Reference returns the faults found by the compiler's own validator, like Walk.
func (s *Schema) Reference(v any) (faults []string) {
	err := s.root.Validate(v)
	var tree *jsonschema.ValidationError
	if errors.As(err, &tree) {
		return collect(nil, tree)
	}
	return nil
}

func collect(faults []string, err *jsonschema.ValidationError) []string {
	path, keyword := err.InstanceLocation, ""
	var members []string
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range err.Causes {
			faults = collect(faults, cause)
		}
		return faults
	case *kind.FalseSchema:
		keyword = "false"
	case *kind.Not:
		keyword = "not"
	case *kind.MinContains:
		keyword = "contains"
	case *kind.Required:
		members = k.Missing
	case *kind.AdditionalProperties:
		members = k.Properties
	case *kind.PropertyNames:
		members = []string{k.Property}
	case *kind.Dependency:
		keyword, members = "dependentRequired", k.Missing
	case *kind.DependentRequired:
		members = k.Missing
	}
	if keyword == "" {
		keyword = fmt.Sprint(err.ErrorKind.KeywordPath()[0])
	}
	if members == nil {
		return append(faults, strings.Join(path, ".")+" "+keyword)
	}
	for _, name := range members {
		place := strings.Join(append(path[:len(path):len(path)], name), ".")
		faults = append(faults, place+" "+keyword)
	}
	return faults
}
