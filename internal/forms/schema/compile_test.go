package schema_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
)

func TestCompile(t *testing.T) {
	long := strings.Repeat("a", 1025)
	tests := []struct {
		name   string
		schema string
		want   string // part of the error; "" for none
	}{
		{"empty object", `{}`, ""},
		{"true", `true`, ""},
		{"false", `false`, ""},
		{"2020-12", `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}`, ""},
		{"draft-07 with fragment", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a"}}}`, ""},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`, ""},
		{"2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$defs":{"a":{}},"$ref":"#/$defs/a"}`, ""},
		{"anchor", `{"$defs":{"a":{"$anchor":"here","type":"string"}},"properties":{"x":{"$ref":"#here"}}}`, ""},
		{"embedded id", `{"$id":"https://example.com/root","$defs":{"a":{"$id":"item","type":"string"}},"properties":{"x":{"$ref":"https://example.com/item"}}}`, ""},
		{"recursive tree", `{"properties":{"children":{"items":{"$ref":"#"}}}}`, ""},
		{"definition with odd name", `{"$defs":{"a/b~c %25":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a~1b~0c%20%2525"}}}`, ""},
		{"unknown keyword", `{"x-mcp-header":"Region","unit":"°C"}`, ""},
		{"the 2020-12 preservation schema", preservation, ""},
		{"draft-07 metaschema is built in", `{"properties":{"schema":{"$ref":"http://json-schema.org/draft-07/schema#"}}}`, ""},

		{"not JSON", `{`, "json:"},
		{"nothing", ``, "json:"},
		{"null", `null`, "object or a boolean"},
		{"number", `1`, "object or a boolean"},
		{"array", `[]`, "object or a boolean"},
		{"duplicate member", `{"type":"object","type":"string"}`, "duplicate"},
		{"unknown dialect", `{"$schema":"https://example.com/mine"}`, `"https://example.com/mine" is not a supported dialect`},
		{"dialect of wrong type", `{"$schema":1}`, `"$schema" must be a string`},
		{"wrong type of keyword", `{"properties":{"x":{"minLength":"3"}}}`, `"properties.x.minLength": must be an integer, got string`},
		{"unknown type", `{"type":"text"}`, `"type"`},
		{"http ref", `{"properties":{"x":{"$ref":"http://127.0.0.1:1/x"}}}`, `"http://127.0.0.1:1/x" leads out of the schema`},
		{"https ref", `{"$ref":"https://example.com/x.json#/a"}`, `"https://example.com/x.json" leads out`},
		{"file ref", `{"$ref":"file:///etc/passwd"}`, `"file:///etc/passwd" leads out`},
		{"relative ref", `{"$ref":"other.json"}`, `"other.json" leads out`},
		{"absolute path ref", `{"$ref":"/etc/passwd"}`, `leads out`},
		{"ref in an unused definition", `{"$defs":{"a":{"properties":{"b":{"$ref":"https://example.com/b"}}}}}`, `"https://example.com/b" leads out`},
		{"ref in an unused old definition", `{"definitions":{"a":{"$ref":"https://example.com/b"}}}`, `"https://example.com/b" leads out`},
		{"ref to a missing definition", `{"$ref":"#/$defs/missing"}`,
			`"#/$defs/missing" leads nowhere`},
		{"ref to a missing anchor", `{"$ref":"#missing"}`, `"#missing" leads nowhere`},
		{"nested dialect", `{"$defs":{"a":{"$id":"a","$schema":"https://example.com/d"}},"$ref":"a"}`, `"https://example.com/d"`},
		{"dynamicRef", `{"$dynamicRef":"#"}`, "not supported"},
		{"recursiveRef", `{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"x":{"$recursiveRef":"#"}}}`, "not supported"},
		{"self reference", `{"$ref":"#"}`, "leads back to itself"},
		{"self reference in allOf", `{"allOf":[{"$ref":"#"}]}`, "leads back to itself"},
		{"self reference in dependentSchemas", `{"dependentSchemas":{"a":{"$ref":"#"}}}`, "leads back to itself"},
		{"mutual references", `{"$ref":"#/$defs/a","$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"if":{"$ref":"#/$defs/a"}}}}`, "leads back to itself"},
		{"long pattern", `{"pattern":"` + long + `"}`, "longer than 1024 bytes"},
		{"long property pattern", `{"patternProperties":{"` + long + `":{}}}`,
			"longer than 1024 bytes"},
		{"large pattern", `{"pattern":"` + strings.Repeat("[ab]{900}", 100) + `"}`, "instructions"},
		{"many large patterns", `{"anyOf":[` + strings.Repeat(`{"pattern":"[ab]{1000}"},`, 60) +
			`true]}`, "take too many instructions together"},
		{"lookahead", `{"pattern":"(?=a)"}`, `"pattern": must be a regular expression that RE2 understands`},
		{"huge number", `{"minimum":1e100000}`, "exponent"},
		{"long number", `{"minimum":` + strings.Repeat("9", 900) + `}`, "digits"},
		{"huge length", `{"minLength":18446744073709551616}`, `"minLength" must be below`},
		{"too deep", strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70), "deep"},
		{"multipleOf zero", `{"multipleOf":0}`, `"multipleOf"`},
		{"too large", `{"description":"` + strings.Repeat("x", 256<<10) + `"}`,
			"larger than 262144 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := schema.Compile([]byte(tt.schema), schema.Limits{})
			if tt.want == "" {
				if err != nil {
					t.Fatalf("got error %q, want none", err)
				}
				if string(s.Raw()) != tt.schema {
					t.Errorf("Raw: got %s, want %s", s.Raw(), tt.schema)
				}
				return
			}
			if err == nil {
				t.Fatalf("got no error, want %q", tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) ||
				!strings.HasPrefix(err.Error(), "schema: ") {
				t.Errorf("got error %q, want %q", err, tt.want)
			}
			if len(err.Error()) > 400 {
				t.Errorf("error has %d bytes", len(err.Error()))
			}
		})
	}
}

// preservation uses most keywords that tools use.
const preservation = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`

// fanOut is a chain of definitions that each apply the next one twice.
func fanOut(n int, keyword string) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{%q:[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, keyword, i+1, i+1)
	}
	fmt.Fprintf(&b, `"a%d":{"type":"string"}}}`, n)
	return b.String()
}

// The function within fails if f is slow. The bound is generous: failures take hours.
func within(t *testing.T, limit time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > limit {
		t.Errorf("took %v, want at most %v", took, limit)
	}
}

// Fan-out is refused in the schema, or by the budget of the document.
func TestRefusesFanOut(t *testing.T) {
	var flat, chain, pairs strings.Builder
	for i := range 30000 {
		fmt.Fprintf(&flat, `,"a%d":{}`, i)
	}
	short := flat.String()[:200<<10]
	short = short[:strings.LastIndexByte(short, ',')]
	for i := range 900 {
		fmt.Fprintf(&chain, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
	}
	for range 120 {
		pairs.WriteString(`{"$ref":"#/$defs/wide"},`)
	}
	wide := strings.TrimSuffix(strings.Repeat(`{"minLength":1},`, 200), ",")
	tests := []struct {
		name   string
		schema string
		doc    string // empty if the schema itself is refused
		want   string
	}{
		{"anyOf 2^30", fanOut(30, "anyOf"), `1`, "too large or too deep"},
		{"allOf 2^30", fanOut(30, "allOf"), `"a"`, "too large or too deep"},
		{"allOf 2^60", fanOut(60, "allOf"), "", "nested more than 64 deep"},
		{"oneOf 2^30", fanOut(30, "oneOf"), `"a"`, "too large or too deep"},
		{"product", `{"allOf":[` + pairs.String() + `true],"$defs":{"wide":{"anyOf":[` + wide +
			`]}}}`, `""`, "must match one of"},
		{"below a property", `{"properties":{"x":{"items":` + fanOut(1, "anyOf") + `}},"patternProperties":{"^x":{"allOf":[` + pairs.String() + `true]}},"$defs":{"a0":true,"wide":{"anyOf":[` + wide + `]}}}`,
			`{"xy":""}`, "must match one of"},
		{"many subschemas", `{"properties":{"x":{}` + flat.String() + `}}`, "", "larger than"},
		{"many small subschemas",
			`{"properties":{"x":{}` + short + `}}`, "", "more than 2000 subschemas"},
		{"many booleans", `{"anyOf":[` + strings.Repeat("true,", 3000) + `true]}`,
			"", "more than 2000 subschemas"},
		{"hidden in an unknown keyword",
			`{"$ref":"#/x/0","x":[` + strings.Repeat("{},", 3000) + `{}]}`,
			"", "more than 2000 subschemas"},
		{"long chain", `{"$ref":"#/$defs/a0","$defs":{` + chain.String() + `"a900":{}}}`,
			"", "nested more than 64 deep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			within(t, 30*time.Second, func() {
				s, err := schema.Compile([]byte(tt.schema), schema.Limits{})
				if err == nil && tt.doc != "" {
					err = s.Validate([]byte(tt.doc))
				}
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got error %v, want %q", err, tt.want)
				}
			})
		})
	}
	if _, err := schema.Compile([]byte(fanOut(5, "anyOf")), schema.Limits{}); err != nil {
		t.Errorf("a small fan-out is refused: %v", err)
	}
}

func TestLimits(t *testing.T) {
	raw := []byte(`{"properties":{"a":{"type":"string"},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`)
	tests := []struct {
		name   string
		limits schema.Limits
		want   string
	}{
		{"defaults", schema.Limits{}, ""},
		{"negative is default", schema.Limits{MaxBytes: -1, MaxSubschemas: -1, MaxSteps: -1}, ""},
		{"bytes", schema.Limits{MaxBytes: 20}, "larger than 20 bytes"},
		{"subschemas", schema.Limits{MaxSubschemas: 3}, "more than 3 subschemas"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := schema.Compile(raw, tt.limits)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got error %q, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}
