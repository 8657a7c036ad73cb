package schema_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
)

var schemaSeeds = []string{
	`true`, `{}`, preservation, fanOut(3, "anyOf"), fanOut(30, "oneOf"), `{"$ref":"#"}`,
	`{"$ref":"https://example.com/x"}`,
	`{"$dynamicRef":"#a","$dynamicAnchor":"a"}`, `{"items":{"$ref":"#"},"contains":{"$ref":"#"},"uniqueItems":true}`,
	`{"$schema":"http://json-schema.org/draft-04/schema#","id":"x","items":[{"type":"string"}],"additionalItems":false,"dependencies":{"a":["b"],"c":{}}}`,
	`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"unevaluatedItems":false,"minContains":2,"contains":{"enum":[1,"a",null,[],{}]}}`,
	`{"patternProperties":{"^a{1,9}":{"format":"date-time"}},"propertyNames":{"pattern":"^x"},"unevaluatedProperties":false,"minimum":1e9,"multipleOf":0.1}`,
}

func FuzzCompile(f *testing.F) {
	for _, s := range schemaSeeds {
		if s == "" {
			f.Fatal("empty seed")
		}
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := schema.Compile(raw, schema.Limits{MaxBytes: 16 << 10})
		if err != nil {
			if !strings.HasPrefix(err.Error(), "schema: ") {
				t.Errorf("error without noun: %q", err)
			}
			return
		}
		for _, doc := range []string{``, `null`, `[[1],"a",{"a":1}]`,
			`{"a":{"b":[1.5]},"c":"2026-01-01"}`} {
			_ = s.Validate([]byte(doc))
		}
	})
}

func FuzzValidate(f *testing.F) {
	docs := []string{`{"contactMethod":"phone","phone":"1"}`, `[1,[2,[3]],"a"]`, `1e400`,
		`{"a":{"b":{"c":null}}}`, `"hunter2"`}
	for _, s := range schemaSeeds {
		for _, d := range docs {
			if s == "" || d == "" {
				f.Fatal("empty seed")
			}
			f.Add([]byte(s), []byte(d))
		}
	}
	f.Fuzz(func(t *testing.T, raw, doc []byte) {
		s, err := schema.Compile(raw, schema.Limits{MaxBytes: 16 << 10, MaxSteps: 100_000})
		if err != nil {
			return
		}
		first, second := s.Validate(doc), s.Validate(doc)
		if (first == nil) != (second == nil) || first != nil && first.Error() != second.Error() {
			t.Errorf("got %v and then %v", first, second)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	s := compile(b, preservation)
	doc := []byte(`{"name":"Ada","contactMethod":"phone","phone":"1","address":{"street":"a","city":"b"}}`)
	b.ReportAllocs()
	for b.Loop() {
		noError(b, s.Validate(doc))
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		compile(b, preservation)
	}
}
