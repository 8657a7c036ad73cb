package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// scan looks at a schema before the compiler sees it, for everything that would make compiling it
// expensive. It reads any object as a possible subschema, because a $ref may point anywhere.
type scan struct {
	limits     Limits
	subschemas int
	misfits    int // see [scan.countMisfit]
}

// countMisfit counts values that are neither schemas nor names where the keyword asks for one, and
// refuses more than maxMisfits. The compiler takes a kilobyte for each such fault, and only lists
// and maps can have many. A few are let through, since an example may hold any value.
func (s *scan) countMisfit(keyword string, value any) error {
	ok := true
	switch keyword {
	case "required", "type":
		_, ok = value.(string)
	case "allOf", "anyOf", "oneOf", "prefixItems", "items":
		ok = isSchema(value)
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		ok = isSchema(value)
	case "dependencies", "dependentRequired":
		names, list := value.([]any)
		for _, name := range names {
			if err := s.countMisfit("required", name); err != nil {
				return err
			}
		}
		ok = list || isSchema(value)
	}
	if !ok {
		s.misfits++
	}
	if s.misfits > maxMisfits {
		return fmt.Errorf(
			"%q and its like hold more than %d values that are neither schemas nor names", keyword,
			maxMisfits)
	}
	return nil
}

func isNested(v any) bool {
	kind := kindOf(v)
	return kind == jsonx.Array || kind == jsonx.Object
}

func isSchema(v any) bool {
	switch v.(type) {
	case bool, map[string]any:
		return true
	}
	return false
}

// checkList checks a keyword's list.
func (s *scan) checkList(keyword string, items []any) error {
	nested := 0
	for _, item := range items {
		if err := s.countMisfit(keyword, item); err != nil {
			return err
		}
		if isNested(item) {
			nested++
		}
	}
	if keyword == "enum" && nested > maxNestedValues {
		return fmt.Errorf("%q holds more than %d arrays and objects", keyword, maxNestedValues)
	}
	if keyword == "type" && len(items) > maxTypes {
		return fmt.Errorf("%q names more than %d types", keyword, maxTypes)
	}
	return nil
}

// holdsSchemas reports whether the object that is the keyword's value holds subschemas by name and
// is none itself.
func holdsSchemas(keyword string) bool {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas",
		"dependencies", "dependentRequired":
		return true
	}
	return false
}

// isCount reports whether the number that is the keyword's value is a length or a count.
func isCount(keyword string) bool {
	switch keyword {
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
		"minContains", "maxContains":
		return true
	}
	return false
}

func (s *scan) checkSchema(v any) error {
	switch v := v.(type) {
	case map[string]any:
		if err := s.countSubschema(); err != nil {
			return err
		}
		for key, value := range v {
			if err := s.checkKeyword(key, value); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if _, boolean := item.(bool); boolean {
				if err := s.countSubschema(); err != nil {
					return err
				}
			}
			if err := s.checkSchema(item); err != nil {
				return err
			}
		}
	case json.Number:
		return CheckNumber(v)
	}
	return nil
}

func (s *scan) checkKeyword(key string, value any) error {
	switch value := value.(type) {
	case map[string]any:
		if !holdsSchemas(key) {
			break
		}
		for name, sub := range value {
			if err := s.countMisfit(key, sub); err != nil {
				return err
			}
			if key == "patternProperties" && len(name) > maxPattern {
				return fmt.Errorf("a pattern in %q is longer than %d bytes", key, maxPattern)
			}
			if _, boolean := sub.(bool); boolean {
				if err := s.countSubschema(); err != nil {
					return err
				}
			}
			if err := s.checkSchema(sub); err != nil {
				return err
			}
		}
		return nil
	case []any:
		if err := s.checkList(key, value); err != nil {
			return err
		}
	case string:
		if key == "pattern" && len(value) > maxPattern {
			return fmt.Errorf("a %q is longer than %d bytes", key, maxPattern)
		}
	case json.Number:
		n, err := strconv.ParseFloat(string(value), 64)
		if isCount(key) && (err != nil || n >= float64(maxCount)) {
			return fmt.Errorf("%q must be below %d", key, maxCount)
		}
	}
	return s.checkSchema(value)
}

func (s *scan) countSubschema() error {
	s.subschemas++
	if s.subschemas > s.limits.MaxSubschemas {
		return fmt.Errorf("more than %d subschemas", s.limits.MaxSubschemas)
	}
	return nil
}

// isDialect reports whether a value of $schema is understood, whatever its scheme and with or
// without an empty fragment.
func isDialect(url string) bool {
	url = strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://")
	switch strings.TrimSuffix(url, "#") {
	case "json-schema.org/schema",
		"json-schema.org/draft/2020-12/schema",
		"json-schema.org/draft/2019-09/schema",
		"json-schema.org/draft-07/schema",
		"json-schema.org/draft-06/schema",
		"json-schema.org/draft-04/schema":
		return true
	}
	return false
}

// checkDialect refuses a $schema that is not understood. Only the root is looked at: elsewhere the
// compiler either ignores the keyword or refuses to load what it names.
func checkDialect(doc any) error {
	root, ok := doc.(map[string]any)
	if !ok {
		if _, boolean := doc.(bool); boolean {
			return nil
		}
		return fmt.Errorf("must be an object or a boolean")
	}
	declared, ok := root["$schema"]
	if !ok {
		return nil
	}
	url, ok := declared.(string)
	if !ok {
		return fmt.Errorf("\"$schema\" must be a string")
	}
	if !isDialect(url) {
		return fmt.Errorf("\"$schema\" %s is not a supported dialect", quote(url))
	}
	return nil
}

// CheckNumber refuses a number whose exact value would take long to compute with.
func CheckNumber(n json.Number) error {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if len(mantissa) > maxDigits {
		return fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	if exponent == "" {
		return nil
	}
	if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
		return fmt.Errorf("a number's exponent is beyond %d", maxExponent)
	}
	return nil
}
