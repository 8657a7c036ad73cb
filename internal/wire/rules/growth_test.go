package rules_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

func TestGrowth(t *testing.T) {
	t.Run("schema", func(t *testing.T) {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				_, err := rules.ParseMirrors(input)
				return err == nil
			},
			BytesPerByte: 8, ObjectsPerByte: 0.3,
		},
			testkit.GrowthInput{Name: "no annotation",
				Make: testkit.Repeat(`{"enum":[`, `"\u0061",`, `1]}`)},
			testkit.GrowthInput{Name: "properties", Make: testkit.Repeat(`{"x":[`, `{"properties":{"a":{"type":"string"}}},`, `"\u0061"]}`)},
			testkit.GrowthInput{Name: "annotations where none may be", Make: testkit.Repeat(`{"anyOf":[`, `{"properties":{"a":{"type":"string","x-mcp-header":"A"}}},`, `{}]}`), Refused: true},
		)
	})
	t.Run("arguments", func(t *testing.T) {
		table, err := rules.ParseMirrors([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"B"}}}`))
		noError(t, err)
		for name, lines := range map[string][]string{"A": {"x"}, "B": {"1"}} {
			testkit.CheckGrowth(t, testkit.GrowthReader{
				Read: func(input []byte) bool {
					return jsonx.Check(input) == nil &&
						table.Check(input, func(string) []string { return lines }) == nil
				},
				BytesPerByte: 12, ObjectsPerByte: 0.1,
			},
				testkit.GrowthInput{Name: "long string " + name,
					Make: testkit.Repeat(`{"a":"`, `x`, `"}`), Refused: true},
				testkit.GrowthInput{Name: "long number " + name,
					Make: testkit.Repeat(`{"b":1`, `0`, `}`), Refused: true},
				testkit.GrowthInput{Name: "beside much " + name,
					Make: testkit.Repeat(`{"c":[`, `1,`, `1]}`), Refused: true},
			)
		}
	})
	t.Run("values", func(t *testing.T) {
		table, err := rules.ParseMirrors([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`))
		noError(t, err)
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				values := func(string) []string { return []string{string(input)} }
				return table.Check([]byte(`{"a":"x"}`), values) == nil
			},
			BytesPerByte: 4, ObjectsPerByte: 0.01,
		},
			testkit.GrowthInput{Name: "plain", Make: testkit.Repeat("", "x", ""), Refused: true},
			testkit.GrowthInput{Name: "base64", Make: testkit.Repeat("=?base64?", "eHh4", "?="),
				Refused: true},
			testkit.GrowthInput{Name: "broken base64",
				Make: testkit.Repeat("=?base64?", "eHh4", "x?="), Refused: true},
		)
	})
}

var noError = testkit.NoError
