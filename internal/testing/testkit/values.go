package testkit

import "fmt"

// GrowthValues returns difficult JSON values. Values named "broken" or "twice" are invalid.
func GrowthValues(head, tail string) []GrowthInput {
	in := func(name, open, part, shut string, refused bool) GrowthInput {
		return GrowthInput{Name: name, Make: Repeat(head+open, part, shut+tail), Refused: refused}
	}
	return []GrowthInput{
		in("numbers", `[`, `1,`, `1]`, false),
		in("fractions", `[`, `-1.5e-7,`, `1]`, false),
		in("strings", `[`, `"ab",`, `""]`, false),
		in("objects", `[`, `{},`, `{}]`, false),
		in("nested", `[`, `[[[[[[[[]]]]]]]],`, `0]`, false),
		in("records", `[`, `{"name":"n","size":12,"tags":["a","b"],"on":true},`, `null]`, false),
		in("escapes", `"`, `\u00e9\n`, `"`, false),
		in("text", `"`, `x`, `"`, false),
		{Name: "members", Make: members(head, tail, `}`)},
		{Name: "member twice", Make: members(head, tail, `,"m0":1}`), Refused: true},
		in("broken at the end", `[`, `1,`, `]`, true),
		in("broken string", `"`, `\u00e9`, ``, true),
		in("broken number", `1`, `0`, `x`, true),
		in("broken UTF-8", `"`, `x`, "\xff\"", true),
		in("too deep", ``, `[`, ``, true),
	}
}

// Repaired returns values for a reader that repairs malformed Unicode.
func Repaired(values []GrowthInput) []GrowthInput {
	for i := range values {
		values[i].Refused = values[i].Refused && values[i].Name != "broken UTF-8"
	}
	return values
}

func members(head, tail, shut string) func(size int) []byte {
	return func(size int) []byte {
		b := append([]byte(head), `{"m":0`...)
		for i := 0; len(b)+len(shut)+len(tail)+20 <= size; i++ {
			b = fmt.Appendf(b, `,"m%d":1`, i)
		}
		return append(append(b, shut...), tail...)
	}
}
