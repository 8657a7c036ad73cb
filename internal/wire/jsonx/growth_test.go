package jsonx_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func TestGrowth(t *testing.T) {
	values := testkit.GrowthValues("", "")
	t.Run("check", func(t *testing.T) {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read:         func(input []byte) bool { return jsonx.Check(input) == nil },
			BytesPerByte: 10, ObjectsPerByte: 0.01, // the names table of an object
		}, values...)
	})
	t.Run("decode", func(t *testing.T) {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				var v any
				return jsonx.UnmarshalNumbers(input, &v) == nil
			},
			// a list of one-digit numbers: the most memory for two bytes
			BytesPerByte: 80, ObjectsPerByte: 1.5,
		}, values...)
	})
	t.Run("canonical", func(t *testing.T) {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				if jsonx.Check(input) != nil {
					return false
				}
				_, err := jsonx.AppendCanonical(nil, input)
				return err == nil
			},
			BytesPerByte: 40, ObjectsPerByte: 0.1,
		}, values...)
	})
}
