package schema_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/jsonx"
	"github.com/rondo-mcp/rondo/internal/schema"
)

// validated is what the validator alone says.
func validated(s *schema.Schema, doc []byte) error {
	var v any
	if err := jsonx.UnmarshalNumbers(doc, &v); err != nil {
		return err
	}
	return s.ValidateValue(v)
}

func TestAccepts(t *testing.T) {
	const tool = `{"type":"object","properties":{"env":{"type":"string","enum":["prod","dev"]},"n":{"type":"integer","minimum":1,"exclusiveMaximum":10},
		"name":{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-zé]+$"},"tags":{"type":"array","items":{"type":"string"},"maxItems":2},
		"on":{"type":"boolean"},"mail":{"type":"string","format":"email"},"any":{},"odd":{"not":{"type":"null"}},"kind":{"const":"x"},
		"nested":{"$ref":"#/$defs/n"},"rate":{"type":["number","null"]}},
		"required":["env"],"additionalProperties":false,"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"additionalProperties":{"type":"string"},"maxProperties":2}}}`
	tests := []struct {
		doc      string
		accepted bool // on the bytes; otherwise the validator decides
		valid    bool
	}{
		{`{"env":"prod"}`, true, true},
		{` { "env" : "d\u0065v" , "n" : 1 } `, true, true},
		{`{"\u0065nv":"dev"}`, true, true},
		{`{"env":"qa"}`, false, false},
		{`{}`, false, false},
		{`{"Env":"prod"}`, false, false},
		{`{"env":"prod","n":0}`, false, false},
		{`{"env":"prod","n":9}`, true, true},
		{`{"env":"prod","n":10}`, false, false},
		{`{"env":"prod","n":2.0}`, false, true},
		{`{"env":"prod","n":1e0}`, false, true},
		{`{"env":"prod","n":99999999999999999999}`, false, false},
		{`{"env":"prod","name":"é"}`, false, false},
		{`{"env":"prod","name":"éé"}`, true, true},
		{`{"env":"prod","name":"abcd"}`, false, false},
		{`{"env":"prod","name":"AB"}`, false, false},
		{`{"env":"prod","tags":["a","b"]}`, true, true},
		{`{"env":"prod","tags":["a","b","c"]}`, false, false},
		{`{"env":"prod","tags":["a",1]}`, false, false},
		{`{"env":"prod","on":"true"}`, false, false},
		{`{"env":"prod","on":false}`, true, true},
		{`{"env":"prod","mail":"a@b"}`, true, true},
		{`{"env":"prod","mail":"a"}`, false, false},
		{`{"env":"prod","any":{"a":[1,{"b":-2.5e3}],"c":"1e999"}}`, true, true},
		{`{"env":"prod","any":{"a":[1,{"b":1e999}]}}`, false, false},
		{`{"env":"prod","any":` + strings.Repeat("1", 801) + `}`, false, false},
		{`{"env":"prod","odd":1}`, false, true},
		{`{"env":"prod","odd":null}`, false, false},
		{`{"env":"prod","kind":"x"}`, true, true},
		{`{"env":"prod","kind":1}`, false, false},
		{`{"env":"prod","nested":{"n":{"n":{}},"a":"b"}}`, true, true},
		{`{"env":"prod","nested":{"n":{"n":{}},"a":1}}`, false, false},
		{`{"env":"prod","nested":{"a":"","b":"","c":""}}`, false, false},
		{`{"env":"prod","rate":1.5}`, true, true},
		{`{"env":"prod","rate":null}`, true, true},
		{`{"env":"prod","rate":""}`, false, false},
		{`{"env":"prod","x":1}`, false, false},
		{`[]`, false, false},
		{`null`, false, false},
	}
	s := compile(t, tool)
	for _, tt := range tests {
		t.Run(tt.doc[:min(60, len(tt.doc))], func(t *testing.T) {
			if got := s.Accepts([]byte(tt.doc)); got != tt.accepted {
				t.Errorf("accepted on the bytes: got %t, want %t", got, tt.accepted)
			}
			if err := validated(s, []byte(tt.doc)); (err == nil) != tt.valid {
				t.Errorf("validator: got %v, want valid %t", err, tt.valid)
			}
			if err := s.Validate([]byte(tt.doc)); (err == nil) != tt.valid {
				t.Errorf("Validate: got %v, want valid %t", err, tt.valid)
			}
		})
	}
}

// What is inferred from Go types, and what other languages' libraries write, is
// found valid on the bytes.
func TestAcceptsUsualSchemas(t *testing.T) {
	for _, tt := range []struct{ name, schema, doc string }{
		{"inferred",
			`{"type":"object","properties":{"a":{"type":"string","description":"d"},"b":{"type":["null","integer"]},"c":{"type":["null","array"],"items":{"type":"string"}},"d":{"type":"object","additionalProperties":{"type":"string"}},"e":{"type":"object","properties":{"X":{"type":"number"}},"required":["X"],"additionalProperties":false},"f":true,"G":{"type":"integer","minimum":0,"maximum":255}},"required":["a","c","e","G"],"additionalProperties":false}`,
			`{"a":"x","b":null,"c":["y"],"d":{"k":"v"},"e":{"X":-1.5},"f":[{}],"G":255}`},
		{"draft-07",
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"]}}},"required":["a"],"additionalProperties":false}`,
			`{"a":["x","x"]}`},
		{"definitions",
			`{"type":"object","properties":{"node":{"$ref":"#/$defs/Node"}},"required":["node"],"title":"Arguments","$defs":{"Node":{"type":"object","title":"Node","properties":{"children":{"type":"array","default":[],"items":{"$ref":"#/$defs/Node"}}}}}}`,
			`{"node":{"children":[{"children":[]},{}]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !compile(t, tt.schema).Accepts([]byte(tt.doc)) {
				t.Errorf("left %s to the validator", tt.doc)
			}
		})
	}
}

// The check on the bytes stops where the count of the validator's steps would.
func TestAcceptsWithinSteps(t *testing.T) {
	const raw = `{"items":{"type":"integer","allOf":[{"minimum":0}]}}`
	doc := []byte("[" + strings.Repeat("1,", 99) + "1]")
	accepted, tried := 0, 0
	for steps := 1; steps < 4000; steps += 7 {
		s, err := schema.Compile([]byte(raw), schema.Limits{MaxSteps: steps})
		if err != nil {
			t.Fatal(err)
		}
		tried++
		bytes, err := s.Accepts(doc), validated(s, doc)
		if bytes != (err == nil) {
			t.Fatalf("%d steps: accepted on the bytes %t, validator %v", steps, bytes, err)
		}
		if bytes {
			accepted++
		}
	}
	if accepted == 0 || accepted == tried {
		t.Errorf("accepted with %d of %d limits, want some", accepted, tried)
	}
}

// The check on the bytes goes over a value again for each value around it and each subschema in place. A document that
// makes much of that is left to the validator, where it costs what its size says.
func TestAcceptsWithinPasses(t *testing.T) {
	const tree = `{"type":"object","properties":{"a":{"$ref":"#"}}`
	many := `,"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"properties":{"b":{"type":"string"}}},`, 20), ",") + `]}`
	nested := func(depth, size int) string {
		return strings.Repeat(`{"a":`, depth) + `{"c":[` + strings.Repeat("[],", size) + `[]]}` + strings.Repeat("}", depth)
	}
	for _, tt := range []struct {
		name, schema, doc string
		accepted          bool
	}{
		{"deep and large", tree + "}", nested(60, 1<<16), false},
		{"deep and small", tree + "}", nested(60, 1), true},
		{"flat and large", tree + "}", nested(1, 1<<16), true},
		{"many in place, large", tree + many, nested(2, 1<<16), false},
		{"many in place, small", tree + many, nested(2, 1), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			if got := s.Accepts([]byte(tt.doc)); got != tt.accepted {
				t.Errorf("accepted on the bytes: got %t, want %t", got, tt.accepted)
			}
			if err := s.Validate([]byte(tt.doc)); err != nil {
				t.Errorf("Validate: got %v, want valid", err)
			}
		})
	}
}

// A maker makes schemas and documents that have something to do with each other.
type maker struct{ *rand.Rand }

func (m maker) pick(from ...string) string { return from[m.IntN(len(from))] }

func (m maker) schema(depth int) string {
	var keywords []string
	add := func(chance int, keyword string) {
		if m.IntN(chance) == 0 {
			keywords = append(keywords, keyword)
		}
	}
	add(2, `"type":`+m.pick(`"string"`, `"integer"`, `"number"`, `"boolean"`, `"object"`, `"object"`, `"array"`, `"null"`, `["string","null"]`, `["integer","string"]`, `["integer","number"]`))
	add(12, `"enum":`+m.pick(`["a","b"]`, `["a",1,null]`, `[true]`))
	add(20, `"const":`+m.pick(`"a"`, `"ab"`, `1`, `null`))
	add(10, `"minLength":`+m.pick("0", "1", "2"))
	add(10, `"maxLength":`+m.pick("0", "1", "2"))
	add(15, `"pattern":`+m.pick(`"a"`, `"^é?$"`))
	add(20, `"format":`+m.pick(`"date"`, `"email"`, `"ipv4"`, `"unheard-of"`))
	add(8, `"minimum":`+m.pick("0", "1", "1.5", "-9223372036854775808", "1e3"))
	add(8, `"maximum":`+m.pick("0", "1", "9223372036854775807", "18446744073709551615"))
	add(12, `"exclusiveMinimum":`+m.pick("0", "1", "-1"))
	add(12, `"exclusiveMaximum":`+m.pick("0", "1", "2"))
	add(25, `"multipleOf":2`)
	add(4, `"required":[`+m.pick(`"a"`, `"b"`, `"a","b"`, `"x"`)+`]`)
	add(10, `"minProperties":`+m.pick("1", "2"))
	add(10, `"maxProperties":`+m.pick("1", "2"))
	add(10, `"minItems":`+m.pick("1", "2"))
	add(10, `"maxItems":`+m.pick("1", "2"))
	add(25, `"uniqueItems":true`)
	add(9, `"description":"a"`)
	if depth > 0 {
		add(2, fmt.Sprintf(`"properties":{"a":%s,"b":%s}`, m.schema(depth-1), m.schema(depth-1)))
		add(4, `"additionalProperties":`+m.pick("true", "false", m.schema(depth-1)))
		add(3, `"items":`+m.schema(depth-1))
		add(30, `"additionalItems":false`)
		add(9, `"allOf":[`+m.schema(depth-1)+`]`)
		add(15, `"anyOf":[`+m.schema(depth-1)+`,true]`)
		add(20, `"prefixItems":[`+m.schema(depth-1)+`]`)
		add(20, `"patternProperties":{"a":`+m.schema(depth-1)+`}`)
		add(30, `"unevaluatedProperties":false`)
		add(30, `"unevaluatedItems":false`)
		add(20, `"oneOf":[`+m.schema(depth-1)+`,`+m.schema(depth-1)+`]`)
		add(20, `"not":`+m.schema(depth-1))
		add(20, `"if":`+m.schema(depth-1)+`,"then":`+m.schema(depth-1)+`,"else":`+m.schema(depth-1))
		add(20, `"contains":`+m.schema(depth-1)+m.pick(``, `,"minContains":2`, `,"maxContains":1`, `,"minContains":0`))
		add(20, `"propertyNames":`+m.schema(depth-1))
		add(20, `"dependentRequired":{"a":["b","x"]}`)
		add(20, `"dependentSchemas":{"b":`+m.schema(depth-1)+`}`)
		add(20, `"$ref":"#/$defs/d"`)
	}
	return "{" + strings.Join(keywords, ",") + "}"
}

func (m maker) root() string {
	return m.pick(`{"$defs":{"d":`, `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{},"$defs":{"d":`) +
		m.schema(0) + `},"type":` + m.pick(`"object"`, `["object","array","string","number"]`) + `,"properties":{"a":` + m.schema(2) + `,"b":` + m.schema(1) + `},"allOf":[` + m.schema(2) + `]}`
}

func (m maker) doc(depth int) string {
	if depth > 0 && m.IntN(2) == 0 {
		switch m.IntN(4) {
		case 0:
			return m.pick(`{}`, `[]`, `{ }`)
		case 1:
			return fmt.Sprintf(`[%s,%s]`, m.doc(depth-1), m.doc(depth-1))
		case 2:
			return fmt.Sprintf(`{"a":%s}`, m.doc(depth-1))
		}
		return fmt.Sprintf(`{"%s":%s, "b" :%s}`, m.pick("a", `\u0061`, "x"), m.doc(depth-1), m.doc(depth-1))
	}
	return m.pick(`"a"`, `"b"`, `""`, `"é"`, `"\u00e9\n"`, `"2026-01-01"`, `"a@b.c"`, `0`, `-0`, `1`, `2`, `1.0`, `1e3`, `0.5`, `-1`, `1e401`,
		`9223372036854775807`, `9223372036854775808`, `true`, `false`, `null`)
}

// agreed checks that a document, which must be JSON, is judged alike on its bytes, decoded, and by the compiler's own validator,
// and returns the judgement.
func agreed(t *testing.T, s *schema.Schema, doc []byte) error {
	t.Helper()
	onBytes, decoded := s.Validate(doc), validated(s, doc)
	if decoded != nil && strings.HasPrefix(decoded.Error(), "a number") && onBytes != nil {
		return decoded // the walk over the bytes may stop before it comes to the number
	}
	if fmt.Sprint(onBytes) != fmt.Sprint(decoded) {
		t.Fatalf("schema %s\ndocument %s\non the bytes: %v\ndecoded: %v", s.Raw(), doc, onBytes, decoded)
	}
	if decoded == nil || !strings.HasPrefix(decoded.Error(), "the document is") {
		var v any
		if err := jsonx.UnmarshalNumbers(doc, &v); err != nil {
			t.Fatal(err)
		}
		reference := s.Reference(v)
		// Beside another fault, what the schema does not evaluate for it is no fault of its own.
		// The compiler's validator shares the memory of paths between faults of propertyNames.
		exact := !strings.Contains(string(s.Raw()), "unevaluated") && !strings.Contains(string(s.Raw()), "propertyNames")
		if (reference == nil) != (decoded == nil) || exact && fmt.Sprint(reference) != fmt.Sprint(decoded) {
			t.Fatalf("schema %s\ndocument %s\ndecoded: %v\nreference: %v", s.Raw(), doc, decoded, reference)
		}
	}
	return decoded
}

// TestPlanAgrees holds the check on the bytes against that of decoded values and against the compiler's own validator. Where numbers
// are plain it also finds most of what is valid without decoding, which is what it is for.
func TestPlanAgrees(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(1, 2))}
	valid, accepted := 0, 0
	for range 700 {
		raw := m.root()
		s, err := schema.Compile([]byte(raw), schema.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		for range 20 {
			doc := m.doc(3)
			bytes, err := s.Accepts([]byte(doc)), agreed(t, s, []byte(doc))
			if err == nil {
				valid++
			}
			if bytes {
				accepted++
			}
		}
	}
	if valid == 0 || accepted < valid/3 {
		t.Errorf("accepted %d of %d valid documents on the bytes, want at least a third", accepted, valid)
	}
	t.Logf("accepted %d of %d valid documents on the bytes", accepted, valid)
}

func FuzzPlan(f *testing.F) {
	for seed := range uint64(32) {
		m := maker{rand.New(rand.NewPCG(3, seed))}
		raw, doc := m.root(), m.doc(3)
		if raw == "" || doc == "" {
			f.Fatal("empty seed")
		}
		f.Add([]byte(raw), []byte(doc))
	}
	f.Fuzz(func(t *testing.T, raw, doc []byte) {
		s, err := schema.Compile(raw, schema.Limits{MaxBytes: 16 << 10, MaxSteps: 100_000})
		if err != nil || jsonx.Check(doc) != nil {
			return
		}
		onBytes, decoded := s.Validate(doc), validated(s, doc)
		if (onBytes == nil) != (decoded == nil) {
			t.Errorf("on the bytes: %v, decoded: %v", onBytes, decoded)
		}
	})
}

func BenchmarkValidateTool(b *testing.B) {
	s := compile(b, `{"type":"object","properties":{"environment":{"type":"string","description":"where"},"version":{"type":"string","description":"what"}},"required":["environment","version"]}`)
	doc := []byte(`{"environment":"production","version":"v1.2.3"}`)
	b.Run("bytes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := s.Validate(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("validator", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := validated(s, doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}
