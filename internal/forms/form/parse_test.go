package form_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func object(property string) string {
	return `{"type":"object","properties":{"x":` + property + `}}`
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, schema string
		strict       string // error of Parse, "" for none
		loose        string // error of ParsePeer
	}{
		{"string", object(`{"type":"string","title":"T","description":"D","minLength":0,"maxLength":3,"format":"email","default":"a@b"}`), "", ""},
		{"number", object(`{"type":"number","minimum":-1.5,"maximum":1e3,"default":0}`), "", ""},
		{"integer", object(`{"type":"integer","minimum":0,"maximum":10,"default":5}`), "", ""},
		{"boolean", object(`{"type":"boolean","default":true}`), "", ""},
		{"enum", object(`{"type":"string","enum":["a","b"],"default":"a"}`), "", ""},
		{"titled enum", object(`{"type":"string","oneOf":[{"const":"a","title":"A"}],"default":"a"}`), "", ""},
		{"legacy enum", object(`{"type":"string","enum":["a","b"],"enumNames":["A","B"]}`), "", ""},
		{"multi-select", object(`{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b"]},"default":["a"]}`), "", ""},
		{"titled multi-select", object(`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]},"default":[]}`), "", ""},
		{"no properties", `{"type":"object","properties":{}}`, "", ""},
		{"$schema", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{}}`, "", ""},
		{"required", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, "", ""},

		{"null", `null`, "must be an object, got null", "must be an object, got null"},
		{"array", `[]`, "must be an object", "must be an object"},
		{"syntax", `{"type":`, "not valid", "not valid"},
		{"nothing", ``, "not valid", "not valid"},
		{"duplicate member", `{"type":"object","type":"object","properties":{}}`, "duplicate member", "duplicate member"},
		{"wrong case", `{"Type":"object","properties":{}}`, `"Type"`, ""},
		{"no type", `{"properties":{}}`, `"type" must be "object"`, ""},
		{"other type", `{"type":"array","properties":{}}`, `"type" must be "object"`,
			`"type" must be "object"`},
		{"list of types", `{"type":["object"],"properties":{}}`, `"type" must be "object"`, ""},
		{"no properties member", `{"type":"object"}`, `"properties" must be an object`, ""},
		{"null properties", `{"type":"object","properties":null}`, `"properties" must be an object`, ""},
		{"list of properties", `{"type":"object","properties":["a"]}`, `"properties" must be an object`,
			`"properties" must be an object`},
		{"additionalProperties", `{"type":"object","properties":{},"additionalProperties":false}`, `"additionalProperties"`, ""},
		{"root annotations", `{"type":"object","properties":{},"title":"T","x-more":{"deep":[{}]}}`, `has the keyword`, ""},
		{"required of wrong type", `{"type":"object","properties":{},"required":"a"}`, `"required" must be an array`, `"required" must be an array`},
		{"required of nulls", `{"type":"object","properties":{},"required":[null]}`, `"required" must be an array`, `"required" must be an array`},
		{"required but missing", `{"type":"object","properties":{},"required":["a"]}`, `field "a": is required but not among`, `field "a": is required but not among`},
		{"boolean schema", object(`true`), `field "x": must be a schema object`, ""},
		{"schema of no value", object(`false`), `field "x": must be a schema object`,
			`field "x": allows no value`},
		{"text for a schema", object(`"string"`), `field "x": must be a schema object`,
			`field "x": must be a schema object, got string`},
		{"null property", object(`null`), `field "x": must be a schema object, got null`, `must be a schema object`},
		{"no type of property", object(`{}`), `field "x": "type" must be a string`, ""},
		{"number for a type", object(`{"type":1}`), `field "x": "type" must be a string`,
			`"type" must be a string`},
		{"nested object", object(`{"type":"object","properties":{}}`), `field "x": has the keyword "properties"`, `field "x": is of type "object"`},
		{"null type", object(`{"type":"null"}`), `field "x": is of type "null"`,
			`is of type "null"`},
		{"two types", object(`{"type":["string","null"]}`), `field "x": "type" must be a string`, ""},
		{"reference", object(`{"$ref":"#"}`), `has the keyword "$ref"`, `leads to no part of the schema`},
		{"array of strings", object(`{"type":"array","items":{"type":"string"}}`), `must list the values`, `must list the values`},
		{"array of numbers", object(`{"type":"array","items":{"type":"number","enum":[1]}}`), `array of strings`, `array of strings`},
		{"array of arrays", object(`{"type":"array","items":{"type":"array","enum":["a"]}}`), `must be strings`, `must be strings`},
		{"array without items", object(`{"type":"array"}`), `without "items"`, `without "items"`},
		{"array with null items", object(`{"type":"array","items":null}`),
			`items must be an object`, `items must be a schema object, got null`},
		{"empty enum", object(`{"type":"string","enum":[]}`), `no values to choose from`,
			`no values to choose from`},
		{"null enum", object(`{"type":"string","enum":null}`), `enum must be an array`,
			`enum must be an array`},
		{"enum of numbers", object(`{"type":"string","enum":[1]}`),
			`enum must be an array of strings`, `enum must be an array of strings`},
		{"enum twice", object(`{"type":"string","enum":["a","a"]}`), `"a" twice`, `"a" twice`},
		{"titles missing", object(`{"type":"string","oneOf":[{"const":"a"}]}`), `const and title`, ""},
		{"const of number", object(`{"type":"string","oneOf":[{"const":1,"title":"A"}]}`), `const that is a string`, `is of type "string" and of type "integer" at once`},
		{"oneOf of schemas", object(`{"type":"string","oneOf":[{"pattern":"a"}]}`), `has the keyword "pattern"`, ""},
		{"enum and oneOf", object(`{"type":"string","enum":["a"],"oneOf":[{"const":"a","title":"A"}]}`), `has the keyword "oneOf"`, ""},
		{"enumNames alone", object(`{"type":"string","enumNames":["A"]}`),
			`has the keyword "enumNames"`, ""},
		{"enumNames of other number", object(`{"type":"string","enum":["a"],"enumNames":[]}`), `0 titles for 1 value`, ""},
		{"pattern", object(`{"type":"string","pattern":"^a"}`), `has the keyword "pattern"`, ""},
		{"bad pattern", object(`{"type":"string","pattern":"(?=a)"}`),
			`has the keyword "pattern"`, ""},
		{"unknown annotation", object(`{"type":"string","examples":["a"],"deprecated":true}`), `has the keyword`, ""},
		{"other format", object(`{"type":"string","format":"uuid"}`), `format is none of`, ""},
		{"format of wrong type", object(`{"type":"string","format":1}`), `format is none of`, `"properties.x.format": must be a string`},
		{"format on integer", object(`{"type":"integer","format":"int32"}`),
			`has the keyword "format"`, ""},
		{"minimum on string", object(`{"type":"string","minimum":1}`),
			`has the keyword "minimum"`, ""},
		{"minLength on enum", object(`{"type":"string","enum":["a"],"minLength":1}`), `has the keyword "minLength"`, ""},
		{"enum on integer", object(`{"type":"integer","enum":[1]}`), `has the keyword "enum"`, ""},
		{"negative length", object(`{"type":"string","minLength":-1}`), `minLength is not a count`,
			`minLength is not a count`},
		{"length of text", object(`{"type":"string","minLength":"1"}`), `minLength is not a count`,
			`minLength is not a count`},
		{"huge bound", object(`{"type":"number","minimum":1e999999}`), `minimum is not a number, or is out of range`, `minimum is not a number`},
		{"length above length", object(`{"type":"string","minLength":2,"maxLength":1}`),
			`minLength is above maxLength`, `minLength is above maxLength`},
		{"min above max", object(`{"type":"number","minimum":2,"maximum":1}`), `minimum is above maximum`, `minimum is above maximum`},
		{"title of wrong type", object(`{"type":"string","title":1}`),
			`title must be a string`, ""},
		{"null description", object(`{"type":"string","description":null}`),
			`description must be a string`, ""},
		{"default of wrong type", object(`{"type":"string","default":1}`),
			`default must be a string, got number`, ""},
		{"null default", object(`{"type":"string","default":null}`),
			`default must be a string, got null`, ""},
		{"default outside enum", object(`{"type":"string","enum":["a"],"default":"b"}`), `default must be one of`, ""},
		{"too large",
			object(`{"type":"string","description":"` + strings.Repeat("x", form.MaxSchema) + `"}`),
			`larger than`, `larger than`},
		{"too many fields", manyFields(form.MaxFields + 1), `more than 100 fields`,
			`more than 100 fields`},
		{"many fields", manyFields(form.MaxFields), "", ""},
		{"too many values",
			object(`{"type":"string","enum":[` + manyValues(form.MaxValues+1) + `]}`),
			`more than 2000 values`, `more than 2000 values`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			strict, err := form.Parse([]byte(tt.schema), form.Options{})
			checkError(t, "Parse", err, tt.strict)
			if err == nil && string(strict.Schema()) != tt.schema {
				t.Errorf("Schema: got %s, want the same bytes", strict.Schema())
			}
			_, err = form.ParsePeer([]byte(tt.schema))
			checkError(t, "ParsePeer", err, tt.loose)
		})
	}
}

func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	var e *form.Error
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: got error %q, want none", what, err)
	case want != "" && !errors.As(err, &e):
		t.Errorf("%s: got %v (%T), want a *form.Error with %q", what, err, err, want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("%s: got error %q, want %q", what, err, want)
	case err != nil && len(err.Error()) > 600:
		t.Errorf("%s: error has %d bytes", what, len(err.Error()))
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"f%d":{"type":"string"}`, i)
	}
	return `{"type":"object","properties":{` + b.String()[1:] + `}}`
}

func manyValues(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"v%d"`, i)
	}
	return b.String()[1:]
}

func TestDigest(t *testing.T) {
	parse := func(s string) [32]byte {
		f, err := form.Parse([]byte(s), form.Options{})
		noError(t, err)
		return f.Digest()
	}
	a := parse(object(`{"type":"string","maxLength":10}`))
	if a != parse(` { "properties" : {"x":{"maxLength":1e1,"type":"\u0073tring"}}, "type":"object"} `) {
		t.Error("two spellings of a schema have different digests")
	}
	if a == parse(object(`{"type":"string","maxLength":11}`)) {
		t.Error("two schemas have the same digest")
	}
}

func TestSpecificationExamples(t *testing.T) {
	root := filepath.Join("..", "..", "..", "..", "shared", "spec", "2026-07-28", "examples")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("the specification's examples are not there: %v", err)
	}
	answers := map[string][2]string{ // accepted, refused
		"StringSchema":                   {`"a@example.com"`, `"nobody"`},
		"NumberSchema":                   {`50`, `101`},
		"BooleanSchema":                  {`true`, `"true"`},
		"TitledMultiSelectEnumSchema":    {`["#0000FF"]`, `["Red"]`},
		"TitledSingleSelectEnumSchema":   {`"#0000FF"`, `"Red"`},
		"UntitledMultiSelectEnumSchema":  {`["Red"]`, `[]`},
		"UntitledSingleSelectEnumSchema": {`"Red"`, `"red"`},
	}
	for dir, answer := range answers {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.json"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no examples (%v)", dir, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			noError(t, err)
			whole := []byte(object(string(raw)))
			if _, err := form.Parse(whole, form.Options{}); err != nil {
				t.Errorf("%s: Parse: %v", file, err)
			}
			f, err := form.ParsePeer(whole)
			if err != nil {
				t.Errorf("%s: ParsePeer: %v", file, err)
				continue
			}
			if _, err := f.Accept([]byte(`{"x":` + answer[0] + `}`)); err != nil {
				t.Errorf("%s: %s is refused: %v", file, answer[0], err)
			}
			if err := f.Check([]byte(`{"x":` + answer[1] + `}`)); err == nil {
				t.Errorf("%s: %s is accepted", file, answer[1])
			}
			filled, err := f.Accept(nil)
			if err != nil || !strings.Contains(string(filled), `"x":`) {
				t.Errorf("%s: the default is not filled in: %s, %v", file, filled, err)
			}
		}
	}
}

var (
	noError   = testkit.NoError
	wantEqual = testkit.WantEqual
)
