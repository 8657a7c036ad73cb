package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// scan looks for everything that makes a schema expensive to compile. It takes any object for a
// possible subschema, because a $ref may point anywhere.
type scan struct {
	subschemas, most int
}

// checkPlace counts a value that is invalid under a keyword as a subschema, because the compiler
// takes a kilobyte for each such fault. It is not refused, since examples may hold any value.
func (s *scan) checkPlace(keyword string, value any) error {
	ok := true
	switch keyword {
	case "required", "type":
		_, ok = value.(string)
	case "allOf", "anyOf", "oneOf", "prefixItems", "items", "properties", "patternProperties",
		"$defs", "definitions", "dependentSchemas":
		ok = isSchema(value)
	case "dependencies", "dependentRequired":
		names, list := value.([]any)
		for _, name := range names {
			if err := s.checkPlace("required", name); err != nil {
				return err
			}
		}
		ok = list || isSchema(value)
	}
	if !ok {
		return s.countSubschema()
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

// namedSchemas are the keywords whose object holds subschemas by name.
var namedSchemas = [...]string{"properties", "patternProperties", "$defs", "definitions",
	"dependentSchemas", "dependencies", "dependentRequired"}

// countKeyword matches the keywords of lengths and counts.
var countKeyword = regexp.MustCompile("^(min|max)(Length|Items|Properties|Contains)$")

var errLongPattern = fmt.Errorf("a pattern is longer than %d bytes", maxPattern)

// check checks a value under a keyword, "" for list elements and named values.
func (s *scan) check(keyword string, value any) error {
	switch v := value.(type) {
	case bool:
		if keyword == "" {
			return s.countSubschema()
		}
	case map[string]any:
		return s.checkObject(keyword, v)
	case []any:
		return s.checkList(keyword, v)
	case string:
		if keyword == "pattern" && len(v) > maxPattern {
			return errLongPattern
		}
	case json.Number:
		n, err := strconv.ParseFloat(string(v), 64)
		if countKeyword.MatchString(keyword) && (err != nil || n >= float64(maxCount)) {
			return fmt.Errorf("%q must be below %d", keyword, maxCount)
		}
		return CheckNumber(v)
	}
	return nil
}

func (s *scan) checkObject(keyword string, members map[string]any) error {
	named := slices.Contains(namedSchemas[:], keyword)
	if !named {
		if err := s.countSubschema(); err != nil {
			return err
		}
	}
	for name, value := range members {
		below := name
		if named {
			below = ""
			if err := s.checkPlace(keyword, value); err != nil {
				return err
			}
			if keyword == "patternProperties" && len(name) > maxPattern {
				return errLongPattern
			}
		}
		if err := s.check(below, value); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) checkList(keyword string, items []any) error {
	nested := 0
	for _, item := range items {
		if err := s.checkPlace(keyword, item); err != nil {
			return err
		}
		if isNested(item) {
			nested++
		}
		if err := s.check("", item); err != nil {
			return err
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

func (s *scan) countSubschema() error {
	if s.subschemas++; s.subschemas > s.most {
		return fmt.Errorf("more than %d subschemas", s.most)
	}
	return nil
}

// dialects matches supported $schema values, with any scheme and with or without an empty fragment.
var dialects = regexp.MustCompile(`^(https?://)?json-schema\.org/` +
	`(draft/20(20-12|19-09)/|draft-0[467]/)?schema#?$`)

// checkDialect refuses an unsupported $schema at the root; the compiler handles others.
func checkDialect(doc any) error {
	root, isObject := doc.(map[string]any)
	if _, isBool := doc.(bool); !isObject && !isBool {
		return errors.New("must be an object or a boolean")
	}
	declared, ok := root["$schema"]
	if !ok {
		return nil
	}
	url, ok := declared.(string)
	if !ok {
		return errors.New("\"$schema\" must be a string")
	}
	if !dialects.MatchString(url) {
		return fmt.Errorf("\"$schema\" %s is not a supported dialect", quote(url))
	}
	return nil
}

// CheckNumber refuses a number that is expensive to compute with exactly.
func CheckNumber(n json.Number) error {
	digits := 0
	for digits < len(n) && n[digits] != 'e' && n[digits] != 'E' {
		digits++
	}
	if digits > maxDigits {
		return fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	if digits == len(n) {
		return nil
	}
	e, err := strconv.Atoi(string(n[digits+1:]))
	if err != nil || e > maxExponent || e < -maxExponent {
		return fmt.Errorf("a number's exponent is beyond %d", maxExponent)
	}
	return nil
}
