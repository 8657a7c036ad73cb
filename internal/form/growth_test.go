package form_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/form"
	"github.com/rondo-mcp/rondo/internal/growthtest"
)

// fields makes a form of so many fields that it is about as large as size.
func fields(property, tail string) func(size int) []byte {
	return func(size int) []byte {
		var b strings.Builder
		b.WriteString(`{"type":"object","properties":{"f":{"type":"string"}`)
		for i := 0; b.Len() < size-len(property)-len(tail)-20; i++ {
			fmt.Fprintf(&b, `,"f%d":%s`, i, property)
		}
		b.WriteString(tail)
		return []byte(b.String())
	}
}

func TestGrowth(t *testing.T) {
	t.Run("forms of peers", func(t *testing.T) {
		growthtest.Test(t, growthtest.Reader{
			Read: func(input []byte) bool {
				_, err := form.ParsePeer(input)
				return err == nil
			},
			BytesPerByte: 300, ObjectsPerByte: 5,
		},
			growthtest.Input{Name: "long title", Make: growthtest.Repeat(`{"type":"object","properties":{"f":{"type":"string","title":"`, `x`, `"}}}`), RefusedFrom: form.MaxSchema + 1},
			growthtest.Input{Name: "many fields", Make: fields(`{"type":"string"}`, `}}`),
				Refused: true},
			growthtest.Input{Name: "many values", Make: growthtest.Repeat(`{"type":"object","properties":{"f":{"type":"string","enum":[`, `"value",`, `"value"]}}}`), Refused: true},
			growthtest.Input{Name: "required", Make: growthtest.Repeat(`{"type":"object","properties":{"f":{"type":"string"}},"required":[`, `"x",`, `"f"]}`), Refused: true},
			growthtest.Input{Name: "keywords beyond the grammar", Make: growthtest.Repeat(`{"type":"object","properties":{"f":{"type":"string","pattern":"a"}},"allOf":[`, `1,`, `1]}`), Refused: true},
			growthtest.Input{Name: "nested", Make: fields(`{"type":"object"}`, `}}`),
				Refused: true},
		)
	})
	t.Run("secrets in schemas that are no forms", func(t *testing.T) {
		growthtest.Test(t, growthtest.Reader{
			Read: func(input []byte) bool {
				form.FindPeerSecret(input)
				return true
			},
			BytesPerByte: 60, ObjectsPerByte: 1,
		},
			growthtest.Input{Name: "title",
				Make: growthtest.Repeat(`{"properties":{"f":{"title":"`, `a b `, `"}}}`)},
			growthtest.Input{Name: "names", Make: fields(`{"type":"string"}`, `}}`)},
			growthtest.Input{Name: "schemas",
				Make: growthtest.Repeat(`{"allOf":[`, `{"properties":{"f":{}}},`, `{}]}`)},
			growthtest.Input{Name: "choices",
				Make: growthtest.Repeat(`{"properties":{"f":{"oneOf":[`, `{"const":1},`, `{}]}}}`)},
		)
	})
	t.Run("answers", func(t *testing.T) {
		f, err := form.ParsePeer([]byte(`{"type":"object","properties":{"text":{"type":"string","maxLength":2097152},"short":{"type":"string","maxLength":3,"pattern":"^a*$"},
			"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		inputs := []growthtest.Input{
			{Name: "text", Make: growthtest.Repeat(`{"text":"`, `x`, `"}`)},
			{Name: "too long", Make: growthtest.Repeat(`{"short":"`, `a`, `"}`), Refused: true},
			{Name: "number", Make: growthtest.Repeat(`{"n":1`, `0`, `}`), Refused: true},
			{Name: "choices", Make: growthtest.Repeat(`{"tags":[`, `"a",`, `"b"]}`)},
			{Name: "wrong choices", Make: growthtest.Repeat(`{"tags":[`, `"c",`, `"b"]}`),
				Refused: true},
			{Name: "no choices", Make: growthtest.Repeat(`{"tags":[`, `1,`, `"b"]}`),
				Refused: true},
		}
		growthtest.Test(t, growthtest.Reader{
			Read: func(input []byte) bool {
				_, err := f.Accept(input)
				return err == nil
			},
			BytesPerByte: 40, ObjectsPerByte: 0.5,
		}, append(inputs, wrapped("{\"unknown\":", "}")...)...)
	})
}

// TestGrowthOfItemsTimesValues: to look each item up among the values must not
// take the product of both. Ten times the answer is ten times the items of ten
// times the values.
func TestGrowthOfItemsTimesValues(t *testing.T) {
	forms, contents := map[int]*form.Form{}, map[int][]byte{}
	for _, size := range []int{growthtest.Small, growthtest.Medium, growthtest.Large} {
		n := max(1, form.MaxValues*size/growthtest.Large)
		f, err := form.ParsePeer([]byte(object(`{"type":"array","items":{"type":"string","enum":[` + manyValues(n) + `]}}`)))
		if err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprintf(`"v%d"`, n-1)
		contents[size] = growthtest.Repeat(`{"x":[`, last+`,`, last+`]}`)(size)
		forms[len(contents[size])] = f
	}
	growthtest.Test(t, growthtest.Reader{
		Read: func(input []byte) bool {
			_, err := forms[len(input)].Accept(input)
			return err == nil
		},
		BytesPerByte: 40, ObjectsPerByte: 0.5,
	}, growthtest.Input{Name: "the last value each time",
		Make: func(size int) []byte { return contents[size] }})
}

// wrapped are values of all shapes for a member that no field has. Broken ones are refused by who
// receives an answer.
func wrapped(head, tail string) (inputs []growthtest.Input) {
	for _, in := range growthtest.Values(head, tail) {
		if !in.Refused {
			inputs = append(inputs, in)
		}
	}
	return inputs
}
