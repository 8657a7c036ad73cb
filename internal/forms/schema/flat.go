package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A flat schema is that of an object whose members are scalars or lists of scalars, which is what
// nearly all tools and forms ask for, or of such a member. The bytes of a document are checked
// against it without decoding them. That they are accepted is final. Otherwise the document is
// decoded and walked, so nothing here need be done that is hard to get exactly right.

// shape is what values of a schema hold at most.
type shape int

const (
	scalar shape = iota
	list         // of scalars
	object       // of lists and scalars
)

// isFlat reports whether acceptsBytes supports what s has.
func isFlat(s *jsonschema.Schema, most shape) bool {
	s = behindRefs(s)
	if !hasOnly(s, "Bool", "Types", "Enum", "Const", "Format", "Required", "Properties",
		"AdditionalProperties", "MinItems", "MaxItems", "Items", "Items2020", "MinLength",
		"MaxLength", "Pattern", "Maximum", "Minimum") ||
		s.Format != nil && !slices.Contains(formatNames, s.Format.Name) {
		return false
	}
	prefix, items, _ := itemsOf(s)
	_, isSchema := s.AdditionalProperties.(*jsonschema.Schema)
	if prefix != nil || items != nil && (most == scalar || !isFlat(items, scalar)) || isSchema ||
		most != object && (s.Properties != nil || s.AdditionalProperties != nil) {
		return false
	}
	for _, sub := range s.Properties {
		if !isFlat(sub, list) {
			return false
		}
	}
	return true
}

// behindRefs returns the schema to which one with nothing but a reference leads.
func behindRefs(s *jsonschema.Schema) *jsonschema.Schema {
	for s.Ref != nil && hasOnly(s, "Ref") { // checkSchema has bounded how often
		s = s.Ref
	}
	return s
}

// flatShare is the part of the budget that patterns may take before a document is decoded. One that
// is not accepted is not matched twice at length.
const flatShare = 8

// errStop stops going over members, items or numbers.
var errStop = errors.New("stop")

// acceptsBytes reports whether a value is certain to be valid.
func (w *walker) acceptsBytes(s *jsonschema.Schema, raw []byte) bool {
	for s.Ref != nil {
		s = s.Ref
	}
	kind := jsonx.KindOf(raw)
	if s.Bool != nil && !*s.Bool ||
		s.Types != nil && kind != jsonx.Number && *s.Types&typeOf(kind) == 0 {
		return false
	}
	if kind != jsonx.String && (s.Enum != nil || s.Const != nil) {
		return false
	}
	switch kind {
	case jsonx.String:
		return w.acceptsText(s, raw)
	case jsonx.Number:
		return acceptsNumber(s, raw)
	case jsonx.Array:
		return w.acceptsItems(s, raw)
	case jsonx.Object:
		return w.acceptsMembers(s, raw)
	}
	return true
}

func (w *walker) acceptsText(s *jsonschema.Schema, raw []byte) bool {
	if s.Enum == nil && s.Const == nil && s.MinLength == nil && s.MaxLength == nil &&
		s.Pattern == nil && s.Format == nil {
		return true
	}
	text, err := jsonx.TextBytes(raw)
	if err != nil {
		return false
	}
	if s.Enum != nil {
		if _, ok := w.sets[s.Enum].texts[string(text)]; !ok {
			return false
		}
	}
	if s.Const != nil {
		if constant, ok := (*s.Const).(string); !ok || constant != string(text) {
			return false
		}
	}
	least, most := orElse(s.MinLength, 0), orElse(s.MaxLength, math.MaxInt)
	if least > 0 || most < len(text) {
		if n := utf8.RuneCount(text); n < least || n > most {
			return false
		}
	}
	if s.Format != nil && !CheckFormat(s.Format.Name, string(text)) {
		return false
	}
	re, ok := s.Pattern.(*pattern)
	if !ok {
		return s.Pattern == nil
	}
	w.left -= patternSteps(re, len(text))
	return w.left >= 0 && re.Match(text)
}

func acceptsNumber(s *jsonschema.Schema, raw []byte) bool {
	if (s.Types == nil || *s.Types&numberType != 0) && s.Minimum == nil && s.Maximum == nil {
		return isOrdinary(raw)
	}
	n, ok := smallInt(json.Number(raw))
	if !ok || s.Types != nil && *s.Types&(numberType|integerType) == 0 {
		return false
	}
	if s.Minimum != nil {
		if order, ok := compareSmall(n, s.Minimum); !ok || order < 0 {
			return false
		}
	}
	if s.Maximum != nil {
		if order, ok := compareSmall(n, s.Maximum); !ok || order > 0 {
			return false
		}
	}
	return true
}

func (w *walker) acceptsItems(s *jsonschema.Schema, raw []byte) bool {
	_, items, _ := itemsOf(s)
	n := 0
	err := jsonx.Elements(raw, func(_ int, value []byte) error {
		if n++; items != nil && !w.acceptsBytes(items, value) || items == nil && !isPlain(value) {
			return errStop
		}
		return nil
	})
	return err == nil && orElse(s.MinItems, 0) <= n && n <= orElse(s.MaxItems, math.MaxInt)
}

func (w *walker) acceptsMembers(s *jsonschema.Schema, raw []byte) bool {
	required := 0
	err := jsonx.Members(raw, func(name, value []byte) error {
		if len(s.Required) > 0 && contains(s.Required, name) {
			required++
		}
		sub, ok := s.Properties[string(name)]
		if ok && !w.acceptsBytes(sub, value) ||
			!ok && (s.AdditionalProperties == false || !isPlain(value)) {
			return errStop
		}
		return nil
	})
	return err == nil && required == len(s.Required)
}

func contains(names []string, name []byte) bool {
	for i := range names {
		if names[i] == string(name) {
			return true
		}
	}
	return false
}

// isPlain reports whether all numbers in raw, at any depth, pass [CheckNumber].
func isPlain(raw []byte) bool { return checkNumbers(raw) == nil }

// checkNumbers returns what is wrong with the first number in raw that fails [CheckNumber].
func checkNumbers(raw []byte) error {
	return jsonx.Numbers(raw, func(number []byte) error {
		if isOrdinary(number) {
			return nil
		}
		return CheckNumber(json.Number(number))
	})
}

// isOrdinary is [CheckNumber] for bytes.
func isOrdinary(number []byte) bool {
	return len(number) <= maxDigits && bytes.IndexByte(number, 'e') < 0 &&
		bytes.IndexByte(number, 'E') < 0 || CheckNumber(json.Number(number)) == nil
}

func orElse(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}
