package schema_test

import (
	"math/big"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
)

// Rules decide and word faults like the same keywords of a compiled schema.
func TestRulesAreTheirSchema(t *testing.T) {
	count := func(n int) *int { return &n }
	for _, test := range []struct {
		name   string
		rules  schema.Rules
		schema string
	}{
		{"string", schema.Rules{Type: "string"}, `{"type":"string"}`},
		{"lengths", schema.Rules{Type: "string", MinSize: count(2), MaxSize: count(3)},
			`{"type":"string","minLength":2,"maxLength":3}`},
		{"format", schema.Rules{Type: "string", Format: "email"},
			`{"type":"string","format":"email"}`},
		{"enum", schema.Rules{Type: "string", Values: []string{"a", "bb"}},
			`{"type":"string","enum":["a","bb"]}`},
		{"integer", schema.Rules{Type: "integer"}, `{"type":"integer"}`},
		{"bounds", schema.Rules{Type: "number", Minimum: big.NewRat(3, 2),
			Maximum: big.NewRat(4, 1)},
			`{"type":"number","minimum":1.5,"maximum":4}`},
		{"boolean", schema.Rules{Type: "boolean"}, `{"type":"boolean"}`},
		{"array", schema.Rules{Type: "array", Values: []string{"a", "bb"}, MaxSize: count(2)},
			`{"type":"array","items":{"type":"string","enum":["a","bb"]},"maxItems":2}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			compiled, err := schema.Compile([]byte(test.schema), schema.Limits{})
			noError(t, err)
			rules, accepted := test.rules.Compile(), 0
			for _, value := range []string{
				`null`, `true`, `0`, `1.50`, `2`, `2.0`, `4.1`, `1e1`, `12345678901234567890`,
				`""`, `"a"`, `"bb"`, `"ééé"`, `"abcd"`, `"a@b.example"`,
				`[]`, `["a"]`, `["a","bb"]`, `["a","bb","a"]`, `["a","c"]`, `[1]`, `{}`,
			} {
				got, want := rules.ValidateChecked([]byte(value)),
					compiled.ValidateChecked([]byte(value))
				if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
					t.Errorf("%s: got %v, want %v", value, got, want)
				}
				decoded := rules.ValidateDecoded([]byte(value))
				if (decoded == nil) != (got == nil) {
					t.Errorf("%s decoded: got %v, want %v", value, decoded, got)
				}
				if got == nil {
					accepted++
				}
			}
			if accepted == 0 {
				t.Error("no value is accepted")
			}
		})
	}
}
