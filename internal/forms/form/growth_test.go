package form_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// The function fields makes a form of about size bytes.
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
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				_, err := form.ParsePeer(input)
				return err == nil
			},
			BytesPerByte: 300, ObjectsPerByte: 5,
		},
			testkit.GrowthInput{Name: "long title", Make: testkit.Repeat(`{"type":"object","properties":{"f":{"type":"string","title":"`, `x`, `"}}}`), RefusedFrom: form.MaxSchema + 1},
			testkit.GrowthInput{Name: "many fields", Make: fields(`{"type":"string"}`, `}}`),
				Refused: true},
			testkit.GrowthInput{Name: "many values", Make: testkit.Repeat(`{"type":"object","properties":{"f":{"type":"string","enum":[`, `"value",`, `"value"]}}}`), Refused: true},
			testkit.GrowthInput{Name: "required", Make: testkit.Repeat(`{"type":"object","properties":{"f":{"type":"string"}},"required":[`, `"x",`, `"f"]}`), Refused: true},
			testkit.GrowthInput{Name: "keywords beyond the grammar", Make: testkit.Repeat(`{"type":"object","properties":{"f":{"type":"string","pattern":"a"}},"allOf":[`, `1,`, `1]}`), Refused: true},
			testkit.GrowthInput{Name: "nested", Make: fields(`{"type":"object"}`, `}}`),
				Refused: true},
		)
	})
	t.Run("secrets in schemas that are no forms", func(t *testing.T) {
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				form.FindPeerSecret(input)
				return true
			},
			BytesPerByte: 60, ObjectsPerByte: 1,
		},
			testkit.GrowthInput{Name: "title",
				Make: testkit.Repeat(`{"properties":{"f":{"title":"`, `a b `, `"}}}`)},
			testkit.GrowthInput{Name: "names", Make: fields(`{"type":"string"}`, `}}`)},
			testkit.GrowthInput{Name: "schemas",
				Make: testkit.Repeat(`{"allOf":[`, `{"properties":{"f":{}}},`, `{}]}`)},
			testkit.GrowthInput{Name: "choices",
				Make: testkit.Repeat(`{"properties":{"f":{"oneOf":[`, `{"const":1},`, `{}]}}}`)},
		)
	})
	t.Run("answers", func(t *testing.T) {
		f, err := form.ParsePeer([]byte(`{"type":"object","properties":{"text":{"type":"string","maxLength":2097152},"short":{"type":"string","maxLength":3,"pattern":"^a*$"},
			"n":{"type":"integer"},"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}}}}`))
		noError(t, err)
		inputs := []testkit.GrowthInput{
			{Name: "text", Make: testkit.Repeat(`{"text":"`, `x`, `"}`)},
			{Name: "too long", Make: testkit.Repeat(`{"short":"`, `a`, `"}`), Refused: true},
			{Name: "number", Make: testkit.Repeat(`{"n":1`, `0`, `}`), Refused: true},
			{Name: "choices", Make: testkit.Repeat(`{"tags":[`, `"a",`, `"b"]}`)},
			{Name: "wrong choices", Make: testkit.Repeat(`{"tags":[`, `"c",`, `"b"]}`),
				Refused: true},
			{Name: "no choices", Make: testkit.Repeat(`{"tags":[`, `1,`, `"b"]}`),
				Refused: true},
		}
		testkit.CheckGrowth(t, testkit.GrowthReader{
			Read: func(input []byte) bool {
				_, err := f.Accept(input)
				return err == nil
			},
			// refused content is decoded
			BytesPerByte: 60, ObjectsPerByte: 0.6,
		}, append(inputs, wrapped("{\"unknown\":", "}")...)...)
	})
}

// Time to look up items must not grow with the product of items and values: both grow tenfold.
func TestGrowthOfItemsTimesValues(t *testing.T) {
	forms, contents := map[int]*form.Form{}, map[int][]byte{}
	for _, size := range []int{testkit.Small, testkit.Medium, testkit.Large} {
		n := max(1, form.MaxValues*size/testkit.Large)
		f, err := form.ParsePeer([]byte(object(`{"type":"array","items":{"type":"string","enum":[` + manyValues(n) + `]}}`)))
		noError(t, err)
		last := fmt.Sprintf(`"v%d"`, n-1)
		contents[size] = testkit.Repeat(`{"x":[`, last+`,`, last+`]}`)(size)
		forms[len(contents[size])] = f
	}
	testkit.CheckGrowth(t, testkit.GrowthReader{
		Read: func(input []byte) bool {
			_, err := forms[len(input)].Accept(input)
			return err == nil
		},
		BytesPerByte: 40, ObjectsPerByte: 0.5,
	}, testkit.GrowthInput{Name: "the last value each time",
		Make: func(size int) []byte { return contents[size] }})
}

// The function wrapped returns values of all shapes for an unknown member, invalid ones too.
func wrapped(head, tail string) (inputs []testkit.GrowthInput) {
	for _, in := range testkit.GrowthValues(head, tail) {
		if !in.Refused {
			inputs = append(inputs, in)
		}
	}
	return inputs
}
