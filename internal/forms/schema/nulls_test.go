package schema_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
)

func TestDropNulls(t *testing.T) {
	s, err := schema.Compile([]byte(`{"type":"object","required":["must"],
		"properties":{
			"must":{"type":"string"},"may":{"type":"string"},"named":{"type":["string","null"]},
			"listed":{"enum":["a",null]},"picked":{"enum":["a","b"]},"any":{},
			"choice":{"anyOf":[{"type":"string"},{"type":"null"}]},
			"either":{"anyOf":[{"properties":{"x":{"type":"string"}}},{"type":"string"}]},
			"ref":{"$ref":"#/$defs/s"},
			"in":{"type":"object","required":["must"],"properties":{"must":{"type":"string"},
				"may":{"type":"integer"},"deep":{"properties":{"may":{"type":"boolean"}}}}},
			"list":{"type":"array","items":{"properties":{"may":{"type":"string"}}}}},
		"additionalProperties":{"properties":{"may":{"type":"string"}}},
		"$defs":{"s":{"type":"string"}}}`), schema.Limits{})
	noError(t, err)
	for _, tt := range []struct{ name, doc, want string }{ // want is empty if doc is unchanged
		{"optional", `{"must":"x","may":null}`, `{"must":"x"}`},
		{"escaped name", `{"m\u0061y":null,"must":"x"}`, `{"must":"x"}`},
		{"several, white space", ` { "may" : null , "must" : "x" , "picked" : null } `,
			`{"must":"x"}`},
		{"behind a reference", `{"ref":null}`, `{}`},
		{"nested", `{"in":{"must":"x","may":null,"deep":{"may":null}},"a":1}`,
			`{"in":{"must":"x","deep":{}},"a":1}`},
		{"an object itself", `{"in":null,"list":null}`, `{}`},
		{"required", `{"must":null}`, ""},
		{"required, nested", `{"in":{"must":null}}`, ""},
		{"named by its type", `{"named":null}`, ""},
		{"named by its values", `{"listed":null}`, ""},
		{"named by a choice", `{"choice":null}`, ""},
		{"anything admits null", `{"any":null}`, ""},
		{"below a choice", `{"either":{"x":null}}`, ""},
		{"below a list", `{"list":[{"may":null}]}`, ""},
		{"below other members", `{"other":{"may":null}}`, ""},
		{"another member", `{"other":null}`, ""},
		{"in a string", `{"may":"null"}`, ""},
		{"no object", `null`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := s.DropNulls([]byte(tt.doc))
			if tt.want == "" {
				tt.want = tt.doc
			}
			if string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
