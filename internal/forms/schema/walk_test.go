package schema_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func TestAccepts(t *testing.T) {
	const tool = `{"type":"object","properties":{"env":{"type":"string","enum":["prod","dev"]},"n":{"type":"integer","minimum":1,"maximum":9},
		"name":{"type":"string","minLength":2,"maxLength":3,"pattern":"^[a-zé]+$"},"tags":{"type":"array","items":{"type":"string"},"maxItems":2},
		"on":{"type":"boolean"},"mail":{"type":"string","format":"email"},"any":{},"kind":{"const":"x"},
		"level":{"$ref":"#/$defs/n"},"rate":{"type":["number","null"]}},
		"required":["env"],"additionalProperties":false,"$defs":{"n":{"type":"string","enum":["high","low"]}}}`
	tests := []struct {
		doc      string
		accepted bool // on its bytes, without a walk
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
		{`{"env":"prod","kind":"x"}`, true, true},
		{`{"env":"prod","kind":1}`, false, false},
		{`{"env":"prod","level":"high"}`, true, true},
		{`{"env":"prod","level":"none"}`, false, false},
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
			if err := s.ValidateDecoded([]byte(tt.doc)); (err == nil) != tt.valid {
				t.Errorf("decoded: got %v, want valid %t", err, tt.valid)
			}
			if err := s.Validate([]byte(tt.doc)); (err == nil) != tt.valid {
				t.Errorf("Validate: got %v, want valid %t", err, tt.valid)
			}
		})
	}
}

// Schemas of Go types and other languages' libraries are accepted on the bytes.
func TestAcceptsUsualSchemas(t *testing.T) {
	for _, tt := range []struct{ name, schema, doc string }{
		{"inferred",
			`{"type":"object","properties":{"a":{"type":"string","description":"d"},"b":{"type":["null","integer"]},"c":{"type":["null","array"],"items":{"type":"string"}},"d":{"type":"object"},"e":{"type":"number"},"f":true,"G":{"type":"integer","minimum":0,"maximum":255}},"required":["a","c","e","G"],"additionalProperties":false}`,
			`{"a":"x","b":null,"c":["y"],"d":{"k":"v"},"e":-1.5,"f":[{}],"G":255}`},
		{"draft-07",
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"array","items":{"type":"string","enum":["x"]}}},"required":["a"],"additionalProperties":false}`,
			`{"a":["x","x"]}`},
		{"definitions",
			`{"type":"object","properties":{"level":{"$ref":"#/$defs/Level"}},"required":["level"],"title":"Arguments","$defs":{"Level":{"type":"string","title":"Level","enum":["high","low"]}}}`,
			`{"level":"low"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !compile(t, tt.schema).Accepts([]byte(tt.doc)) {
				t.Errorf("%s is decoded", tt.doc)
			}
		})
	}
}

// The function agreed checks that the check on bytes, the walk and the compiler's validator agree
// on a JSON document, and returns the error. The walk's fault must be among the validator's.
func agreed(t *testing.T, s *schema.Schema, doc []byte) error {
	t.Helper()
	onBytes, decoded := s.Validate(doc), s.ValidateDecoded(doc)
	if fmt.Sprint(onBytes) != fmt.Sprint(decoded) {
		t.Fatalf("schema %s\ndocument %s\non the bytes: %v\ndecoded: %v", s.Raw(), doc, onBytes,
			decoded)
	}
	if decoded != nil && (strings.HasPrefix(decoded.Error(), "the document is") ||
		strings.HasPrefix(decoded.Error(), "a number")) {
		return decoded
	}
	var v any
	noError(t, jsonx.UnmarshalNumbers(doc, &v))
	_, fault := s.Walk(v)
	reference := s.Reference(v)
	// The compiler's validator also reports unevaluated parts beside another fault, and shares the
	// memory of propertyNames paths.
	exact := !strings.Contains(string(s.Raw()), "unevaluated") &&
		!strings.Contains(string(s.Raw()), "propertyNames")
	if (reference == nil) != (decoded == nil) ||
		exact && fault != "" && !slices.Contains(reference, fault) {
		t.Fatalf("schema %s\ndocument %s\ndecoded: %v (%s)\nreference: %q", s.Raw(), doc, decoded,
			fault, reference)
	}
	return decoded
}

func TestWalkAgrees(t *testing.T) {
	rounds := 50
	if testkit.Slow {
		rounds = 250
	}
	valid, accepted, refused := 0, 0, 0
	for _, m := range makers(1) {
		for range rounds {
			raw := m.root()
			s, err := schema.Compile([]byte(raw), schema.Limits{})
			if err != nil {
				if refused++; !strings.Contains(err.Error(), "back to itself") {
					t.Fatalf("%s: %v", raw, err)
				}
				continue
			}
			for range 30 {
				doc := m.doc(4)
				bytes, err := s.Accepts([]byte(doc)), agreed(t, s, []byte(doc))
				if err == nil {
					valid++
				}
				if bytes {
					accepted++
				}
			}
		}
	}
	if valid == 0 || accepted == 0 || refused > rounds {
		t.Errorf("accepted %d of %d valid documents on the bytes, want some; %d schemas refused, "+
			"want few", accepted, valid, refused)
	}
	t.Logf("accepted %d of %d valid documents on the bytes; %d schemas refused", accepted, valid,
		refused)
}

// FuzzWalk is TestWalkAgrees without multiplying references: the validator has no budget.
func FuzzWalk(f *testing.F) {
	for seed := range uint64(8) {
		for _, m := range makers(seed) {
			f.Add([]byte(m.root()), []byte(m.doc(3)))
		}
	}
	f.Fuzz(func(t *testing.T, raw, doc []byte) {
		s, err := schema.Compile(raw, schema.Limits{MaxBytes: 16 << 10, MaxSteps: 100_000})
		if err != nil || jsonx.Check(doc) != nil {
			return
		}
		if len(raw) < 2<<10 && len(doc) < 1<<10 && strings.Count(string(raw), "$ref") <= 4 {
			agreed(t, s, doc)
			return
		}
		onBytes, decoded := s.Validate(doc), s.ValidateDecoded(doc)
		if fmt.Sprint(onBytes) != fmt.Sprint(decoded) {
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
			noError(b, s.Validate(doc))
		}
	})
	b.Run("decoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			noError(b, s.ValidateDecoded(doc))
		}
	})
}
