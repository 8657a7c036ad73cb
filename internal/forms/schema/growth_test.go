package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// TestGrowth checks documents against schemas that they break. Collecting every fault would exceed
// the bound.
func TestGrowth(t *testing.T) {
	items := func(part string) func(int) []byte {
		return testkit.Repeat(`{"items":[`, part, `0]}`)
	}
	const perByte = 100 // to decode a document
	for _, tt := range []struct {
		name, schema string
		input        testkit.GrowthInput
	}{
		{"strings", `{"type":"string"}`,
			testkit.GrowthInput{Make: items(`1,`), Refused: true}},
		{"numbers", `{"type":"integer"}`, testkit.GrowthInput{Make: items(`1,`)}},
		{"one wrong number", `{"type":"integer"}`,
			testkit.GrowthInput{Make: testkit.Repeat(`{"items":[`, `1,`, `"x"]}`), Refused: true}},
		{"wrong bound", `{"type":"integer","minimum":2}`,
			testkit.GrowthInput{Make: items(`1,`), Refused: true}},
		{"never", `false`, testkit.GrowthInput{Make: items(`1,`), Refused: true}},
		{"enumeration", `{"enum":["a","b"]}`,
			testkit.GrowthInput{Make: items(`"c",`), Refused: true}},
		{"closed objects", `{"additionalProperties":false}`,
			testkit.GrowthInput{Make: items(`{"a":1},`), Refused: true}},
		{"required", `{"required":["a"]}`,
			testkit.GrowthInput{Make: items(`{},`), Refused: true}},
		{"all of many", `{"allOf":[{"type":"string"},{"type":"null"},{"type":"boolean"}]}`, testkit.GrowthInput{Make: items(`1,`), Refused: true}},
		{"any of", `{"anyOf":[{"type":"string"},{"type":"integer"}]}`, testkit.GrowthInput{Make: items(`1234,`)}},
		{"none of any", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, testkit.GrowthInput{Make: items(`1,`), Refused: true}},
		{"contains", `{"contains":{"type":"null"}}`,
			testkit.GrowthInput{Make: items(`[1],`), Refused: true}},
		{"unique", `{}`, testkit.GrowthInput{Make: items(`[1],`)}},
		{"patterns", `{"pattern":"^[a-z]{2,60}$"}`,
			testkit.GrowthInput{Make: items(`"A",`), Refused: true}},
		{"format", `{"format":"email"}`,
			testkit.GrowthInput{Make: items(`"nobody",`), Refused: true}},
	} {
		s := compile(t, `{"properties":{"items":{"items":`+tt.schema+`}}}`)
		tt.input.Name = tt.name
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read:         func(input []byte) bool { return s.Validate(input) == nil },
			BytesPerByte: perByte, ObjectsPerByte: perByte / 50,
		}, tt.input)
	}
}

func TestGrowthOfWholeDocuments(t *testing.T) {
	const regexes = 900 // the budget ends at 8 MB of parsed expressions
	for _, tt := range []struct {
		name, schema string
		perByte      float64
		input        testkit.GrowthInput
	}{
		{"any", `{}`, 16, testkit.GrowthInput{Make: testkit.Repeat(`[`, `[1],`, `0]`)}},
		{"unique", `{"uniqueItems":true}`, 160,
			testkit.GrowthInput{Make: testkit.Repeat(`[`, `1,`, `1]`), Refused: true}},
		{"unevaluated", `{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, 120, testkit.GrowthInput{Make: object, Refused: true}},
		{"closed", `{"additionalProperties":false}`, 60,
			testkit.GrowthInput{Make: object, Refused: true}},
		{"names", `{"propertyNames":{"maxLength":2}}`, 80,
			testkit.GrowthInput{Make: object, Refused: true}},
		{"long text", `{"maxLength":100,"pattern":"^(a|b)*c$"}`, 8, testkit.GrowthInput{Make: testkit.Repeat(`"`, `a`, `"`), Refused: true}},
		{"heavy pattern", `{"pattern":"^(a?){300}(a*)*b$"}`, 32,
			testkit.GrowthInput{Make: testkit.Repeat(`"`, `a`, `"`), Refused: true}},
		{"regular expressions", `{"items":{"format":"regex"}}`, regexes,
			testkit.GrowthInput{Make: testkit.Repeat(`["`, strings.Repeat(`\\pL`, 10)+`","`, `"]`),
				Refused: true}},
		{"folded ranges", `{"items":{"format":"regex"}}`, regexes,
			testkit.GrowthInput{Make: testkit.Repeat(`["`, `(?i)[b-\\x{10ffff}]","`, `"]`),
				Refused: true}},
		{"many numbers to choose from", `{"items":{"not":{"enum":` + list(1900, "%d.5") + `}}}`,
			100,
			testkit.GrowthInput{Make: testkit.Repeat(`[`, strings.Repeat("9", 700)+`.5,`, `1]`)}},
		{"many values to choose from",
			`{"items":{"not":{"enum":[{"a":[` + list(1900, "%d.5") + `]},"x",0.5]}}}`, 200,
			testkit.GrowthInput{Make: testkit.Repeat(`[`, `{"a":[1]},`, `1]`)}},
		{"many that need decoding", `{"allOf":` + list(40, `{"not":{"const":%d}}`) + `}`, 100,
			testkit.GrowthInput{Make: testkit.Repeat(`[`, `[],`, `1]`),
				RefusedFrom: testkit.Large / 2}},
		{"a long bound", `{"items":{"minimum":-` + strings.Repeat("9", 790) + `.5}}`, 200,
			testkit.GrowthInput{Make: testkit.Repeat(`[`, `1.5,`, `1]`),
				RefusedFrom: testkit.Medium / 2}},
		{"fractions", `{"items":{"multipleOf":0.25}}`, 100,
			testkit.GrowthInput{Make: testkit.Repeat(`[`, `123456.5,`, `1]`)}},
	} {
		s := compile(t, tt.schema)
		tt.input.Name = tt.name
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read:         func(input []byte) bool { return s.Validate(input) == nil },
			BytesPerByte: tt.perByte, ObjectsPerByte: 4,
		}, tt.input)
	}
}

// list makes an array of n values from format.
func list(n int, format string) string {
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(values, ",") + "]"
}

func object(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size-20; i++ {
		fmt.Fprintf(&b, `,"member%d":1`, i)
	}
	return []byte("{" + b.String()[1:] + "}")
}

// TestCompileGrowth compiles peers' schemas: forms, and tools of upstream servers.
func TestCompileGrowth(t *testing.T) {
	classes := strings.Repeat(`\\pL`, 300)
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			_, err := schema.Compile(input, schema.Limits{})
			return err == nil
		},
		// compiling up to 2000 subschemas dominates
		BytesPerByte: 300, ObjectsPerByte: 5,
	},
		testkit.GrowthInput{Name: "properties",
			Make:        testkit.Repeat(`{"properties":{"a":{}},"enum":[`, `"value",`, `1]}`),
			RefusedFrom: 256 << 10},
		testkit.GrowthInput{Name: "description",
			Make: testkit.Repeat(`{"description":"`, `x`, `"}`), RefusedFrom: 256 << 10},
		testkit.GrowthInput{Name: "wrong names of required",
			Make: testkit.Repeat(`{"required":[`, `1,`, `1]}`), Refused: true},
		testkit.GrowthInput{Name: "wrong types", Make: testkit.Repeat(`{"type":[`, `"x",`, `"y"]}`),
			Refused: true},
		testkit.GrowthInput{Name: "no schemas", Make: testkit.Repeat(`{"allOf":[`, `1,`, `1]}`),
			Refused: true},
		testkit.GrowthInput{Name: "no properties",
			Make:    testkit.Repeat(`{"$defs":{"a":{"prefixItems":[`, `"x",`, `1]}}}`),
			Refused: true},
		testkit.GrowthInput{Name: "many subschemas",
			Make: testkit.Repeat(`{"allOf":[`, `{},`, `{}]}`), Refused: true},
		testkit.GrowthInput{Name: "folded ranges",
			Make: testkit.Repeat(`{"anyOf":[`,
				`{"pattern":"(?i)`+strings.Repeat(`[b-\\x{10ffff}]`, 60)+`"},`, `true]}`),
			Refused: true},
		testkit.GrowthInput{Name: "a folded range each", Make: testkit.Repeat(`{"anyOf":[`,
			`{"pattern":"(?i)[b-\\x{10ffff}]"},`, `true]}`), Refused: true},
		testkit.GrowthInput{Name: "values that look alike", Make: alike,
			RefusedFrom: testkit.Medium / 2},
		testkit.GrowthInput{Name: "classes", Make: testkit.Repeat(`{"anyOf":[`,
			`{"pattern":"`+classes+`"},`, `true]}`), Refused: true},
	)
}

// The function alike makes an enumeration of arrays with the same hash.
func alike(size int) []byte {
	var b strings.Builder
	for i := 0; b.Len() < size-150; i++ {
		b.WriteString(`["`)
		for bit := range 15 {
			if i>>bit&1 == 1 {
				b.WriteString(`a","`)
			} else {
				b.WriteString(`a\u0004`)
			}
		}
		b.WriteString(`a"],`)
	}
	return []byte(`{"$schema":"http://json-schema.org/draft-07/schema#","enum":[` + b.String() + `1]}`)
}

// The cost of a pattern is deducted before matching; the budget is about a quarter of a second.
func TestStepsOfPatterns(t *testing.T) {
	s := compile(t, `{"pattern":"^`+strings.Repeat(`(a?){200}`, 2)+`b$"}`)
	text := func(n int) []byte { return []byte(`"` + strings.Repeat("a", n) + `"`) }
	if err := s.Validate(text(1000)); err == nil ||
		!strings.Contains(err.Error(), "must match the pattern") {
		t.Errorf("1000 bytes: got %v, want a fault of the pattern", err)
	}
	for _, n := range []int{75 << 10, 1 << 20} {
		if err := s.Validate(text(n)); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%d bytes: got %v, want a refusal before matching", n, err)
		}
	}
	honest := compile(t, `{"pattern":"^[A-Za-z0-9 .,;:!?-]{1,100}( [A-Za-z]+)*$"}`)
	if err := honest.Validate(text(50 << 10)); err == nil ||
		strings.Contains(err.Error(), "too large") {
		t.Errorf("an honest pattern and 50 KiB: got %v, want a fault of the pattern", err)
	}
}

// Realistic documents are far from the budget.
func TestStepsOfHonestDocuments(t *testing.T) {
	const budget = 2_500_000
	for _, tt := range []struct {
		name, schema, doc string
		share             float64 // of the budget
	}{
		{"a form", `{"type":"object","properties":{"mail":{"type":"string","format":"email"},"phone":{"type":"string","pattern":"^\\+?[0-9 ()-]{5,20}$"},"id":{"type":"string","pattern":"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},"when":{"type":"string","format":"date-time"},"note":{"type":"string","maxLength":4000}}}`,
			`{"mail":"ada@example.com","phone":"+44 20 7946 0958","id":"123e4567-e89b-12d3-a456-426614174000","when":"2026-01-02T03:04:05Z","note":"` + strings.Repeat("a", 3000) + `"}`, 0.001},
		{"a megabyte of records", `{"type":"array","items":{"type":"object","properties":{"name":{"type":"string","pattern":"^[\\w .-]+$"},"size":{"type":"integer","minimum":0},"tags":{"type":"array","items":{"type":"string"}}},"required":["name"],"additionalProperties":false}}`,
			"[" + strings.Repeat(`{"name":"record","size":12,"tags":["a","b"]},`, 23_000) + `{"name":"last"}]`, 0.4},
		{"a megabyte of numbers", `{"type":"array","items":{"type":"array","items":{"type":"number"}}}`,
			"[" + strings.Repeat(`[0.125,-1.5e3,17],`, 58_000) + "[]]", 0.2},
		{"a megabyte of text", `{"type":"string","minLength":1}`,
			`"` + strings.Repeat("text ", 200_000) + `"`, 0.1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			if err := s.Validate([]byte(tt.doc)); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			var v any
			noError(t, jsonx.UnmarshalNumbers([]byte(tt.doc), &v))
			if steps, _ := s.Walk(v); float64(steps) > tt.share*budget {
				t.Errorf("%s takes %d steps, want at most %v of the budget", tt.name, steps, tt.share)
			} else {
				t.Logf("%s: %d steps", tt.name, steps)
			}
		})
	}
}
