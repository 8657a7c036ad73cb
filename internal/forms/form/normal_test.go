package form_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

const lookahead = `"^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z.]+$"`

// normalCases are forms as schema generators write them. asked is the normal form; refused is the
// error if there is not exactly one reading.
var normalCases = []struct {
	name, schema   string
	asked, refused string
	takes, breaks  string // content, "" for none
}{
	{"pydantic Optional[str]", object(`{"anyOf":[{"type":"string"},{"type":"null"}],"default":null,"title":"A"}`),
		object(`{"title":"A","type":"string"}`), "", `{}`, `{"x":1}`},
	{"pydantic Optional[int] with bounds", object(`{"anyOf":[{"type":"integer","minimum":1,"maximum":9},{"type":"null"}]}`),
		object(`{"type":"integer","minimum":1,"maximum":9}`), "", `{"x":9}`, `{"x":10}`},
	{"pydantic Enum", `{"$defs":{"C":{"enum":["a","b"],"title":"C","type":"string"}},"properties":{"x":{"$ref":"#/$defs/C"}},"required":["x"],"title":"F","type":"object"}`,
		`{"properties":{"x":{"enum":["a","b"],"title":"C","type":"string"}},"required":["x"],"title":"F","type":"object"}`, "", `{"x":"a"}`, `{"x":"c"}`},
	{"pydantic 1 Enum with default", `{"type":"object","properties":{"x":{"description":"D","default":"b","allOf":[{"$ref":"#/definitions/C"}]}},"definitions":{"C":{"description":"An enumeration.","enum":["a","b"]}}}`,
		object(`{"description":"D","default":"b","enum":["a","b"],"type":"string"}`), "", `{}`, `{"x":"c"}`},
	{"pydantic Optional[Enum]", `{"$defs":{"C":{"enum":["a","b"],"type":"string"}},"type":"object","properties":{"x":{"anyOf":[{"$ref":"#/$defs/C"},{"type":"null"}]}}}`,
		object(`{"enum":["a","b"],"type":"string"}`), "", `{"x":"b"}`, `{"x":"c"}`},
	{"pydantic Literal of one", object(`{"const":"a","title":"X","type":"string"}`),
		object(`{"title":"X","type":"string","enum":["a"]}`), "", `{"x":"a"}`, `{"x":"b"}`},
	{"pydantic Literal of integers", object(`{"enum":[1,2],"title":"X"}`),
		object(`{"enum":[1,2],"title":"X","type":"integer","description":"(one of: 1, 2)"}`), "", `{"x":2}`, `{"x":3}`},
	{"pydantic gt", object(`{"exclusiveMinimum":0,"type":"integer"}`),
		object(`{"exclusiveMinimum":0,"type":"integer","minimum":0,"description":"(more than 0)"}`), "", `{"x":1}`, `{"x":0}`},
	{"pydantic int | float", object(`{"anyOf":[{"type":"integer"},{"type":"number"}]}`),
		object(`{"type":"number","anyOf":[{"type":"integer"},{"type":"number"}]}`), "", `{"x":1.5}`, `{"x":"a"}`},
	{"pydantic Any", object(`{"title":"X"}`), object(`{"title":"X","type":"string"}`), "", `{"x":"a"}`, `{"x":1}`},
	{"pydantic UUID", object(`{"format":"uuid","type":"string","description":"D"}`),
		object(`{"type":"string","description":"D (format: uuid)","allOf":[{"format":"uuid"}]}`), "",
		`{"x":"6ba7b810-9dad-11d1-80b4-00c04fd430c8"}`, `{"x":"a"}`},
	{"pydantic set of an Enum", `{"$defs":{"C":{"enum":["a","b"]}},"type":"object","properties":{"x":{"items":{"$ref":"#/$defs/C"},"type":"array","uniqueItems":true}}}`,
		object(`{"items":{"enum":["a","b"],"type":"string"},"type":"array","uniqueItems":true}`), "", `{"x":["a"]}`, `{"x":["a","a"]}`},
	{"pydantic multipleOf", object(`{"multipleOf":5,"type":"integer"}`), object(`{"multipleOf":5,"type":"integer"}`), "", `{"x":10}`, `{"x":7}`},
	{"zod nullable", object(`{"type":["string","null"]}`), object(`{"type":"string"}`), "", `{}`, `{"x":1}`},
	{"zod required nullable", `{"type":"object","properties":{"x":{"type":["integer","null"]}},"required":["x"]}`,
		`{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}`, "", `{"x":1}`, `{}`},
	{"zod nullable enum", object(`{"type":["string","null"],"enum":["a",null]}`),
		object(`{"type":"string","enum":["a"]}`), "", `{"x":"a"}`, `{"x":"c"}`},
	{"zod literal union", object(`{"anyOf":[{"type":"string","const":"a"},{"type":"string","const":"b"}]}`),
		object(`{"type":"string","enum":["a","b"]}`), "", `{"x":"b"}`, `{"x":"c"}`},
	{"zod literal union, nullable", object(`{"anyOf":[{"const":"a"},{"const":"b"},{"type":"null"}]}`),
		object(`{"type":"string","enum":["a","b"]}`), "", `{"x":"b"}`, `{"x":"c"}`},
	{"zod union of enums", object(`{"anyOf":[{"enum":["a","b"]},{"enum":["c"]}]}`),
		object(`{"type":"string","enum":["a","b","c"]}`), "", `{"x":"c"}`, `{"x":"d"}`},
	{"zod literal true", object(`{"type":"boolean","const":true}`), object(`{"type":"boolean","const":true}`), "", `{"x":true}`, `{"x":false}`},
	{"zod union of numbers", object(`{"anyOf":[{"const":1},{"const":2.5}]}`),
		object(`{"type":"number","enum":[1,2.5],"description":"(one of: 1, 2.5)"}`), "", `{"x":2.5}`, `{"x":2}`},
	{"zod email", object(`{"type":"string","format":"email","pattern":` + lookahead + `}`),
		object(`{"type":"string","format":"email","pattern":` + lookahead + `}`), "", `{"x":"a@b.c"}`, `{"x":"a"}`},
	{"zod email or nothing", object(`{"anyOf":[{"type":"string","pattern":` + lookahead + `},{"type":"string","const":""}]}`),
		object(`{"type":"string","anyOf":[{"type":"string","pattern":` + lookahead + `},{"type":"string","enum":[""]}]}`), "", `{"x":"a"}`, `{"x":1}`},
	{"zod union of texts", object(`{"anyOf":[{"type":"string","maxLength":2},{"type":"string","format":"date"}]}`),
		object(`{"type":"string","anyOf":[{"type":"string","maxLength":2},{"type":"string","format":"date"}]}`), "", `{"x":"2026-01-31"}`, `{"x":"abc"}`},
	{"zod intersection", object(`{"allOf":[{"type":"string","minLength":2},{"type":"string","maxLength":3}]}`),
		object(`{"type":"string","minLength":2,"maxLength":3}`), "", `{"x":"ab"}`, `{"x":"a"}`},
	{"zod-to-json-schema with a name", `{"$ref":"#/definitions/F","definitions":{"F":{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}},"$schema":"http://json-schema.org/draft-07/schema#"}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"x":{"type":"string"}},"required":["x"],"additionalProperties":false}`, "", `{"x":"a"}`, `{}`},
	{"zod-to-json-schema, the same again", `{"type":"object","properties":{"y":{"type":"string","enum":["a"]},"x":{"$ref":"#/properties/y"}}}`,
		`{"type":"object","properties":{"y":{"type":"string","enum":["a"]},"x":{"type":"string","enum":["a"]}}}`, "", `{"x":"a"}`, `{"x":"b"}`},
	{"zod-to-json-schema any", object(`{}`), object(`{"type":"string"}`), "", `{"x":"a"}`, `{"x":1}`},
	{"Go any", object(`true`), object(`{"type":"string"}`), "", `{"x":"a"}`, `{"x":1}`},
	{"Go pointer to a bool", object(`{"type":["null","boolean"]}`), object(`{"type":"boolean"}`), "", `{}`, `{"x":1}`},
	{"Go enum of consts with titles", object(`{"oneOf":[{"const":"a","title":"A"},{"const":"b"}]}`),
		object(`{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"b"}]}`), "", `{"x":"b"}`, `{"x":"A"}`},
	{"numbers with titles", object(`{"oneOf":[{"const":1,"title":"low"},{"const":2,"title":"high"}]}`),
		object(`{"type":"integer","enum":[1,2],"enumNames":["low","high"],"description":"(one of: 1 low, 2 high)"}`), "", `{"x":2}`, `{"x":3}`},
	{"enum without type", object(`{"enum":["a","b"]}`), object(`{"enum":["a","b"],"type":"string"}`), "", `{"x":"a"}`, `{"x":"c"}`},
	{"length without type", object(`{"minLength":2}`), object(`{"minLength":2,"type":"string"}`), "", `{"x":"ab"}`, `{"x":"a"}`},
	{"default without type", object(`{"default":true}`), object(`{"default":true,"type":"boolean"}`), "", `{}`, `{"x":"maybe"}`},
	{"OpenAPI nullable", object(`{"type":"string","nullable":true,"enum":["a"]}`), object(`{"type":"string","enum":["a"]}`), "", `{}`, `{"x":"b"}`},
	{"OpenAPI 3.0 exclusive bound", object(`{"type":"number","minimum":0,"exclusiveMinimum":true}`),
		object(`{"type":"number","minimum":0,"exclusiveMinimum":0,"description":"(more than 0)"}`), "", `{"x":0.5}`, `{"x":0}`},
	{"OpenAPI 3.1 dialect", `{"$schema":"https://spec.openapis.org/oas/3.1/dialect/base","type":"object","properties":{"x":{"type":"integer","format":"int32","examples":"5"}}}`,
		object(`{"type":"integer","format":"int32","examples":"5"}`), "", `{"x":1}`, `{"x":1.5}`},
	{"nothing", `{}`, `{"type":"object","properties":{}}`, "", `{}`, ``},
	{"no properties", `{"type":"object","title":"Sure?"}`, `{"type":"object","title":"Sure?","properties":{}}`, "", `{}`, ``},
	{"nulls for what is absent", `{"type":"object","properties":{"x":{"type":"string","title":null,"maxLength":null,"default":null}},"required":null,"$defs":null}`,
		object(`{"type":"string"}`), "", `{}`, `{"x":1}`},
	{"PHP", `{"type":"object","properties":[],"required":[]}`, `{"type":"object","properties":{},"required":[]}`, "", `{}`, ``},
	{"closed, with annotations", `{"$id":"f","type":"object","properties":{"x":{"type":"string","x-order":1,"readOnly":false}},"additionalProperties":false}`,
		`{"$id":"f","type":"object","properties":{"x":{"type":"string","x-order":1,"readOnly":false}},"additionalProperties":false}`, "", `{"x":"a"}`, `{"x":1}`},
	{"default of another type", object(`{"type":"integer","default":"5"}`), object(`{"type":"integer"}`), "", `{}`, `{"x":"a"}`},

	{"nested object", `{"$defs":{"A":{"type":"object","properties":{}}},"properties":{"x":{"anyOf":[{"$ref":"#/$defs/A"},{"type":"null"}]}}}`,
		"", `form: field "x": is of type "object", but a form is flat: string, number, integer, boolean, and arrays to choose from`, "", ""},
	{"array of objects", object(`{"type":"array","items":{"type":"object","properties":{}}}`),
		"", `form: field "x": items must list the values to choose from, in "enum" or "anyOf"`, "", ""},
	{"text or number", object(`{"anyOf":[{"type":"string"},{"type":"number"}]}`),
		"", `form: field "x": has more than one reading: anyOf of number, string`, "", ""},
	{"a list of two types", object(`{"type":["string","boolean","null"]}`),
		"", `form: field "x": has more than one reading: type of string, boolean`, "", ""},
}

func TestNormalForm(t *testing.T) {
	asked := 0
	published := publishedForms(t)
	for _, test := range normalCases {
		if test.asked != "" {
			asked++
		}
		t.Run(test.name, func(t *testing.T) {
			f, err := form.ParsePeer([]byte(test.schema))
			if test.refused != "" {
				if err == nil || err.Error() != test.refused {
					t.Errorf("got %v, want %s", err, test.refused)
				}
				return
			}
			noError(t, err)
			checkNormal(t, f, published)
			wantEqual(t, "normal form", canonical(t, f.Schema()), canonical(t, []byte(test.asked)))
			if _, err := f.Accept([]byte(test.takes)); err != nil {
				t.Errorf("%s is refused: %v", test.takes, err)
			}
			if f.Check([]byte(test.breaks)) == nil && test.breaks != "" {
				t.Errorf("%s is accepted", test.breaks)
			}
		})
	}
	if len(normalCases) != 48 || asked < 44 {
		t.Errorf("%d of %d shapes are asked", asked, len(normalCases))
	}
}

// checkNormal checks a form against the published schemas, and that normalizing it changes nothing.
func checkNormal(t *testing.T, f *form.Form, published []*schema.Schema) {
	t.Helper()
	for _, p := range published {
		if err := p.Validate(f.Schema()); err != nil {
			t.Errorf("%s is no form of the specification: %v", f.Schema(), err)
		}
	}
	again, err := form.ParsePeer(f.Schema())
	if err != nil {
		t.Fatalf("%s is refused: %v", f.Schema(), err)
	}
	if canonical(t, again.Schema()) != canonical(t, f.Schema()) || again.Digest() != f.Digest() {
		t.Errorf("%s becomes %s", f.Schema(), again.Schema())
	}
}

func canonical(t *testing.T, raw []byte) string {
	out, err := jsonx.AppendCanonical(nil, raw)
	noError(t, err)
	return string(out)
}

// publishedForms returns the published schemas of requestedSchema, or none if they are unavailable.
func publishedForms(t testing.TB) (forms []*schema.Schema) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "spec", revision,
			"schema.json"))
		if err != nil {
			t.Logf("the specification's schema is not there: %v", err)
			return nil
		}
		var all struct {
			Defs map[string]json.RawMessage `json:"$defs"`
		}
		noError(t, json.Unmarshal(raw, &all))
		var params struct {
			Properties struct{ RequestedSchema map[string]any }
		}
		noError(t, json.Unmarshal(all.Defs["ElicitRequestFormParams"], &params))
		whole := params.Properties.RequestedSchema
		kept := map[string]any{}
		for name, def := range all.Defs {
			if strings.HasSuffix(name, "Schema") || name == "PrimitiveSchemaDefinition" {
				kept[name] = def
			}
		}
		whole["$defs"] = kept
		raw, err = json.Marshal(whole)
		noError(t, err)
		compiled, err := schema.Compile(raw, schema.Limits{})
		noError(t, err)
		forms = append(forms, compiled)
	}
	return forms
}

// Cyclic references and growing schemas are refused.
func TestNormalFormIsBounded(t *testing.T) {
	defs := `"$defs":{"a":{"$ref":"#/$defs/a"},"e":{"enum":[` + manyValues(1900) + `]}`
	for i := range 20 {
		next := string(rune('a' + i + 1))
		defs += `,"d` + string(rune('a'+i)) + `":{"allOf":[{"$ref":"#/$defs/d` + next +
			`"},{"$ref":"#/$defs/d` + next + `"}]}`
	}
	defs += `}`
	for name, test := range map[string]struct{ property, want string }{
		"cycle":        {`"x":{"$ref":"#/$defs/a"}`, `field "x": refers to itself, or is too large`},
		"fan-out":      {`"x":{"$ref":"#/$defs/da"}`, `field "x": refers to itself, or is too large`},
		"root":         {`"x":{"$ref":"#"}`, `field "x": has the reference "#", which leads to no part`},
		"parent":       {`"x":{"anyOf":[{"$ref":"#/properties/x"},{"type":"null"}]}`, `refers to itself`},
		"nowhere":      {`"x":{"$ref":"#/$defs/z"}`, `"#/$defs/z", which leads nowhere`},
		"other file":   {`"x":{"$ref":"a.json"}`, `"a.json", which leads to no part of the schema`},
		"large values": {manyRefs(99), `too large`},
	} {
		_, err := form.ParsePeer([]byte(`{` + defs + `,"properties":{` + test.property + `}}`))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", name, err, test.want)
		}
	}
	if _, err := form.ParsePeer([]byte(`{"$ref":"#/$defs/a",` + defs + `}`)); err == nil {
		t.Error("a form that refers to itself is asked")
	}
}

func manyRefs(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = `"f` + strings.Repeat("f", i) + `":{"$ref":"#/$defs/e"}`
	}
	return strings.Join(list, ",")
}

// checkNotWeaker checks accepted content against the original schema, if that compiles.
func checkNotWeaker(t *testing.T, raw []byte, f *form.Form, content []byte) {
	t.Helper()
	out, err := f.Accept(content)
	if err != nil {
		return
	}
	original, err := schema.Compile(raw, schema.Limits{})
	if err != nil {
		return
	}
	if err := original.Validate(out); err != nil {
		t.Errorf("%s takes %s, which %s refuses: %v", f.Schema(), out, raw, err)
	}
}

// No schema panics; a normal form is stable, and accepts no more than the schema.
func FuzzNormalForm(f *testing.F) {
	for _, test := range normalCases {
		f.Add([]byte(test.schema), []byte(test.takes))
		f.Add([]byte(test.schema), []byte(test.breaks))
	}
	published := publishedForms(f)
	f.Fuzz(func(t *testing.T, raw, content []byte) {
		parsed, err := form.ParsePeer(raw)
		if err != nil {
			return
		}
		if len(parsed.Schema()) > form.MaxSchema {
			t.Fatalf("%d bytes become %d", len(raw), len(parsed.Schema()))
		}
		checkNormal(t, parsed, published)
		checkNotWeaker(t, raw, parsed, content)
	})
}

func TestNormalFormTakesNoMore(t *testing.T) {
	ab := `[{"const":"a","title":"A"},{"const":"c","title":"C"}]`
	for name, test := range map[string]struct{ property, takes, breaks string }{
		"both lists of items": {`{"type":"array","items":{"type":"string","enum":["a","b"],"anyOf":` +
			ab + `}}`, `["a"]`, `["c"]`},
		"const and enum": {`{"anyOf":[{"enum":["a","b"],"const":"a"},{"const":"c"}]}`, `"a"`, `"b"`},
		"const and enum of a reference": {`{"oneOf":[{"$ref":"#/$defs/L","const":1},` +
			`{"$ref":"#/$defs/L","const":2}]}`, `2`, `3`},
	} {
		f, err := form.ParsePeer([]byte(`{"type":"object","properties":{"x":` + test.property +
			`},"$defs":{"L":{"enum":[1,2,3]}}}`))
		if err != nil {
			continue // nothing is accepted
		}
		if _, err := f.Accept([]byte(`{"x":` + test.takes + `}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := f.Accept([]byte(`{"x":` + test.breaks + `}`)); err == nil {
			t.Errorf("%s: %s is taken by %s", name, got, f.Schema())
		}
	}
	f, err := form.ParsePeer([]byte(object(
		`{"default":null,"anyOf":[{"type":"string","default":"prod"},{"type":"null"}]}`)))
	if err != nil || strings.Contains(string(f.Schema()), "prod") {
		t.Errorf("left empty it is %s, %v", f.Schema(), err)
	}
	keywords := ""
	for i := range 64 {
		keywords += fmt.Sprintf(`"k%d":1,`, i)
	}
	if _, err := form.ParsePeer([]byte(object(`{` + keywords + `"type":"string"}`))); err == nil {
		t.Error("more keywords than a schema may have are read")
	}
}
