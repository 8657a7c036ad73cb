package headers_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/growthtest"
	"github.com/rondo-mcp/rondo/internal/headers"
	"github.com/rondo-mcp/rondo/internal/jsonx"
)

func TestGrowth(t *testing.T) {
	t.Run("schema", func(t *testing.T) {
		growthtest.Test(t, growthtest.Reader{
			Read: func(input []byte) bool {
				_, err := headers.Parse(input)
				return err == nil
			},
			BytesPerByte: 8, ObjectsPerByte: 0.3,
		},
			growthtest.Input{Name: "no annotation",
				Make: growthtest.Repeat(`{"enum":[`, `"\u0061",`, `1]}`)},
			growthtest.Input{Name: "properties", Make: growthtest.Repeat(`{"x":[`, `{"properties":{"a":{"type":"string"}}},`, `"\u0061"]}`)},
			growthtest.Input{Name: "annotations where none may be", Make: growthtest.Repeat(`{"anyOf":[`, `{"properties":{"a":{"type":"string","x-mcp-header":"A"}}},`, `{}]}`), Refused: true},
		)
	})
	t.Run("arguments", func(t *testing.T) {
		table, err := headers.Parse([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"B"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for name, lines := range map[string][]string{"A": {"x"}, "B": {"1"}} {
			growthtest.Test(t, growthtest.Reader{
				Read: func(input []byte) bool {
					return jsonx.Check(input) == nil &&
						table.Check(input, func(string) []string { return lines }) == nil
				},
				BytesPerByte: 12, ObjectsPerByte: 0.1,
			},
				growthtest.Input{Name: "long string " + name,
					Make: growthtest.Repeat(`{"a":"`, `x`, `"}`), Refused: true},
				growthtest.Input{Name: "long number " + name,
					Make: growthtest.Repeat(`{"b":1`, `0`, `}`), Refused: true},
				growthtest.Input{Name: "beside much " + name,
					Make: growthtest.Repeat(`{"c":[`, `1,`, `1]}`), Refused: true},
			)
		}
	})
	t.Run("values", func(t *testing.T) {
		table, err := headers.Parse([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		growthtest.Test(t, growthtest.Reader{
			Read: func(input []byte) bool {
				values := func(string) []string { return []string{string(input)} }
				return table.Check([]byte(`{"a":"x"}`), values) == nil
			},
			BytesPerByte: 4, ObjectsPerByte: 0.01,
		},
			growthtest.Input{Name: "plain", Make: growthtest.Repeat("", "x", ""), Refused: true},
			growthtest.Input{Name: "base64", Make: growthtest.Repeat("=?base64?", "eHh4", "?="),
				Refused: true},
			growthtest.Input{Name: "broken base64",
				Make: growthtest.Repeat("=?base64?", "eHh4", "x?="), Refused: true},
		)
	})
}
