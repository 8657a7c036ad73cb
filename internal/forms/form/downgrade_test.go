package form_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
)

func TestDowngradeTo20250618(t *testing.T) {
	tests := []struct {
		name, schema, want, err string
	}{
		{"plain", `{"type":"object","properties":{"a":{"type":"string","title":"A","minLength":1}},"required":["a"]}`,
			`{"type":"object","properties":{"a":{"type":"string","title":"A","minLength":1}},"required":["a"]}`, ""},
		{"defaults", `{"type":"object","properties":{"s":{"type":"string","default":"x"},"n":{"type":"integer","default":3},"b":{"type":"boolean","default":true}}}`,
			`{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean","default":true}}}`, ""},
		{"titled choice", `{"type":"object","properties":{"r":{"type":"string","oneOf":[{"const":"eu","title":"Europe"},{"title":"US","const":"us"}],"default":"eu"}}}`,
			`{"type":"object","properties":{"r":{"type":"string","enum":["eu","us"],"enumNames":["Europe","US"]}}}`, ""},
		{"untitled choice", `{"type":"object","properties":{"r":{"type":"string","enum":["eu","us"]}}}`,
			`{"type":"object","properties":{"r":{"type":"string","enum":["eu","us"]}}}`, ""},
		{"several choices", `{"type":"object","properties":{"r":{"type":"array","items":{"type":"string","enum":["a"]}}}}`,
			"", `field "r": revision 2025-06-18 cannot ask for several choices`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := form.Parse([]byte(test.schema), form.Options{}); err != nil {
				t.Fatal(err)
			}
			got, err := form.DowngradeTo20250618([]byte(test.schema))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, want an error with %q", err, test.err)
				}
				return
			}
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestDowngradeOfOtherUnions(t *testing.T) {
	for _, property := range []string{
		`{"type":"number","oneOf":[{"minimum":10},{"maximum":0}]}`,
		`{"type":"string","enum":["a","b"],"oneOf":[{"const":"a"},{"const":"b"}]}`,
		`{"type":"string","oneOf":[{"title":"A"}]}`,
		`{"type":"string","oneOf":"none"}`,
	} {
		schema := `{"type":"object","properties":{"x":` + property + `}}`
		if got, err := form.DowngradeTo20250618([]byte(schema)); err != nil || string(got) != schema {
			t.Errorf("got %s, %v\nwant %s", got, err, schema)
		}
	}
}
