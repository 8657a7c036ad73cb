package schema

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// A flat schema describes an object of scalars or lists of scalars, as in nearly all tools and
// forms, or a member of such an object. Documents are checked against it on their bytes, without
// decoding. Other documents are decoded and walked, so this check may be incomplete.

// shape is the deepest structure that a schema allows.
type shape int

const (
	scalar shape = iota
	list         // of scalars
	object       // of lists and scalars
)

// isFlat reports whether acceptsBytes supports the keywords of s.
func isFlat(s *jsonschema.Schema, most shape) bool {
	for s.Ref != nil && hasOnly(s, "Ref") {
		s = s.Ref
	}
	if !hasOnly(s, "Bool", "Types", "Enum", "Const", "Format", "Required", "Properties",
		"AdditionalProperties", "MinItems", "MaxItems", "Items", "Items2020", "MinLength",
		"MaxLength", "Pattern", "Maximum", "Minimum") ||
		s.Format != nil && !slices.Contains(formatNames[:], s.Format.Name) {
		return false
	}
	prefix, items, _ := itemsOf(s)
	_, isSchema := s.AdditionalProperties.(*jsonschema.Schema)
	if prefix != nil || items != nil && (most == scalar || !isFlat(items, scalar)) || isSchema ||
		most != object && (s.Properties != nil || s.AdditionalProperties != nil) {
		return false
	}
	if len(s.Required) > maxFlatRequired {
		return false
	}
	for _, sub := range s.Properties {
		if !isFlat(sub, list) {
			return false
		}
	}
	return true
}

// flatShare limits the budget of patterns on bytes: a rejected document is matched again.
const flatShare = 8

// maxFlatRequired limits required members: each member of a document is compared with each.
const maxFlatRequired = 32

var errStop = errors.New("stop")

// acceptsBytes reports whether a value is certainly valid. A nil s allows any value.
func (w *walker) acceptsBytes(s *jsonschema.Schema, raw []byte) bool {
	if s == nil {
		return checkNumbers(raw) == nil
	}
	for s.Ref != nil {
		s = s.Ref
	}
	kind := jsonx.KindOf(raw)
	if s.Bool != nil && !*s.Bool ||
		kind != jsonx.Number && !hasKind(s.Types, kind) ||
		kind != jsonx.String && (s.Enum != nil || s.Const != nil) {
		return false
	}
	switch kind {
	case jsonx.String:
		return w.acceptsText(s, raw)
	case jsonx.Number:
		return w.acceptsNumber(s, raw)
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
	if s.Enum != nil && !w.sets[s.Enum].texts[string(text)] ||
		s.Const != nil && !w.sets[s.Const].texts[string(text)] {
		return false
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

func (w *walker) acceptsNumber(s *jsonschema.Schema, raw []byte) bool {
	small, isSmall := smallInt(json.Number(raw))
	if isSmall {
		return (hasKind(s.Types, jsonx.Number) || *s.Types&integerType != 0) &&
			w.checkNumber(s, number{isSmall: true, small: small}) == nil && w.left >= 0
	}
	return hasKind(s.Types, jsonx.Number) && s.Minimum == nil && s.Maximum == nil &&
		CheckNumber(json.Number(raw)) == nil
}

func (w *walker) acceptsItems(s *jsonschema.Schema, raw []byte) bool {
	_, items, _ := itemsOf(s)
	n := 0
	err := jsonx.Elements(raw, func(_ int, value []byte) error {
		if n++; !w.acceptsBytes(items, value) {
			return errStop
		}
		return nil
	})
	return err == nil && orElse(s.MinItems, 0) <= n && n <= orElse(s.MaxItems, math.MaxInt)
}

func (w *walker) acceptsMembers(s *jsonschema.Schema, raw []byte) bool {
	required := 0
	err := jsonx.Members(raw, func(name, value []byte) error {
		if slices.ContainsFunc(s.Required, func(r string) bool { return r == string(name) }) {
			required++
		}
		sub := s.Properties[string(name)]
		if sub == nil && s.AdditionalProperties == false || !w.acceptsBytes(sub, value) {
			return errStop
		}
		return nil
	})
	return err == nil && required == len(s.Required)
}

// checkNumbers returns the first error of [CheckNumber] in raw.
func checkNumbers(raw []byte) error {
	return jsonx.Numbers(raw, func(number []byte) error { return CheckNumber(json.Number(number)) })
}

func orElse(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return *n
}
