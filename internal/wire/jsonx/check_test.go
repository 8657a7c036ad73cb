package jsonx_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

// The function nested returns n levels of alternating arrays and objects.
func nested(n int) string {
	var open, closing strings.Builder
	for i := range n {
		if i%2 == 0 {
			open.WriteString("[")
		} else {
			open.WriteString(`{"a":`)
		}
	}
	for i := n - 1; i >= 0; i-- {
		closing.WriteByte("]}"[i%2])
	}
	return open.String() + "1" + closing.String()
}

func object(n int, name func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, `"%s":%d`, name(i), i)
	}
	return b.String() + "}"
}

func numbered(i int) string { return fmt.Sprintf("k%d", i) }

func TestCheckAccepts(t *testing.T) {
	for _, doc := range []string{
		`null`, `true`, `false`, ` "x" `, "\t\r\n1\n", `0`, `-0`, `-1.5e+10`, `1E400`, `{}`, `[]`,
		`[ ]`, `{ }`,
		`{"a":1,"A":2,"":3}`, `{"a":{"a":{"a":1}},"b":{"a":1}}`, `[{"a":1},{"a":2}]`,
		`"\"\\\/\b\f\n\r\t\u0000\uFFFF\ud83d\ude00"`, "\"\u00e9\u20ac\U0001f600\u007f\"", `"exactly8"`, `"0123456\n"`,
		nested(jsonx.MaxDepth), object(17, numbered), object(100, numbered),
		object(20, func(i int) string { return fmt.Sprintf(`\u00%02x`, 0x41+i) }),
		// Equal names in different objects share the hash table.
		"[" + object(40, numbered) + "," + object(40, numbered) +
			`,{"\u006b1":1,"k":{"\u006b1":1}}]`,
	} {
		if err := jsonx.Check([]byte(doc)); err != nil {
			t.Errorf("Check(%.80q) = %v, want nil", doc, err)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	big := object(1000, numbered)
	for _, test := range []struct {
		name, doc string
		offset    int
		reason    string
	}{
		{"empty", ``, 0, "unexpected end"},
		{"only space", ` `, 1, "unexpected end"},
		{"two values", `1 2`, 2, "text after the value"},
		{"trailing comma", `[1,]`, 3, `unexpected ']'`},
		{"trailing comma in object", `{"a":1,}`, 7, "missing member name"},
		{"missing comma", `[1 2]`, 3, "missing comma or closing bracket"},
		{"wrong bracket", `[1}`, 2, "missing comma or closing bracket"},
		{"unclosed array", `[1`, 2, "unexpected end"},
		{"unclosed object", `{"a":1`, 6, "unexpected end"},
		{"only opened", `{`, 1, "missing member name"},
		{"no colon", `{"a" 1}`, 5, "missing colon"},
		{"name no string", `{a:1}`, 1, "missing member name"},
		{"no value", `{"a":}`, 5, `unexpected '}'`},
		{"stray bracket", `]`, 0, `unexpected ']'`},
		{"truncated literal", `tru`, 0, "malformed literal"},
		{"wrong case literal", `True`, 0, `unexpected 'T'`},
		{"literal runs on", `nulll`, 4, "text after the value"},
		{"leading zero", `01`, 0, "malformed number"},
		{"lone minus", `-`, 1, "malformed number"},
		{"plus", `+1`, 0, `unexpected '+'`},
		{"no fraction", `1.`, 2, "malformed number"},
		{"no exponent", `1e+`, 3, "malformed number"},
		{"NaN", `NaN`, 0, `unexpected 'N'`},
		{"byte order mark", "\ufeff1", 0, `unexpected 'ï'`},
		{"form feed as space", "\f1", 0, `unexpected '\f'`},
		{"unterminated string", `"abc`, 4, "unterminated string"},
		{"ends in backslash", `"abc\`, 4, "unterminated string"},
		{"newline in string", "\"12345678\n\"", 9, "control character in string"},
		{"unknown escape", `"\x"`, 1, "invalid escape"},
		{"short unicode escape", `"\u12"`, 1, "invalid escape"},
		{"bad digit", `"\u12g4"`, 1, "invalid escape"},
		{"lone high surrogate", `"\ud800"`, 1, "lone surrogate"},
		{"lone low surrogate", `"\udc00"`, 1, "lone surrogate"},
		{"high and no low", `"\ud800\u0041"`, 1, "lone surrogate"},
		{"surrogate in a name", `{"\ud800":1}`, 2, "lone surrogate"},
		{"invalid UTF-8", "\"\xff\"", 1, "invalid UTF-8"},
		{"overlong UTF-8", "\"abc\xc0\x80\"", 4, "invalid UTF-8"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", 1, "invalid UTF-8"},
		{"duplicate", `{"a":1,"b":2,"a":3}`, 13, `duplicate member "a"`},
		{"duplicate by escape", `{"action":1,"\u0061ction":2}`, 12, `duplicate member "action"`},
		{"duplicate after escape", `{"\u0061":1,"a":2}`, 12, `duplicate member "a"`},
		{"duplicate of two escapes", `{"\u0061":1,"\u0061":2}`, 12, `duplicate member "a"`},
		{"duplicate around a child", `{"a":{"b":1},"a":2}`, 13, `duplicate member "a"`},
		{"duplicate in a child", `[0,{"x":[{"b":1,"b":2}]}]`, 16, `duplicate member "b"`},
		{"duplicate of the first of many", big[:len(big)-1] + `,"k0":1}`, len(big),
			`duplicate member "k0"`},
		{"duplicate of the last of many", big[:len(big)-1] + `,"k999":1}`, len(big),
			`duplicate member "k999"`},
		{"duplicate around large children", `{"k1":` + big + `,"k1":` + big + `}`, 7 + len(big),
			`duplicate member "k1"`},
		{"duplicate empty name", `{"":1,"":2}`, 6, `duplicate member ""`},
		{"too deep", nested(jsonx.MaxDepth + 1), 64/2 + 64/2*5, "nesting too deep"},
		{"far too deep", strings.Repeat("[", 1<<20), 64, "nesting too deep"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got *jsonx.SyntaxError
			if err := jsonx.Check([]byte(test.doc)); !errors.As(err, &got) {
				t.Fatalf("got %v, want a *SyntaxError", err)
			}
			if got.Offset != test.offset || got.Reason != test.reason {
				t.Errorf("got %d %s, want %d %s", got.Offset, got.Reason, test.offset, test.reason)
			}
		})
	}
}

// The method changes between the sixteenth and seventeenth name.
func TestCheckDuplicateAtEveryPosition(t *testing.T) {
	for n := 1; n <= 40; n++ {
		for of := range n {
			doc := object(n, numbered)
			doc = doc[:len(doc)-1] + fmt.Sprintf(`,"k%d":0}`, of)
			if jsonx.Check([]byte(doc)) == nil {
				t.Errorf("name %d repeated as name %d: accepted", of, n)
			}
		}
	}
}

func TestErrorsQuoteLittle(t *testing.T) {
	name := strings.Repeat("\u00e9", 1000)
	err := jsonx.Check([]byte(`{"` + name + `":1,"` + name + `":2}`))
	if err == nil || len(err.Error()) > 130 ||
		!strings.Contains(err.Error(), `duplicate member "éé`) {
		t.Errorf("got %v", err)
	}
	_, err = jsonx.Int([]byte(strings.Repeat("9", 1000)))
	if err == nil || len(err.Error()) > 130 {
		t.Errorf("got %v", err)
	}
}

// With quadratic work 200,000 members would not finish.
func TestCheckLargeObjects(t *testing.T) {
	members, scopes := 20_000, 10_000
	if testkit.Slow {
		members, scopes = 200_000, 100_000
	}
	for _, test := range []struct {
		name string
		key  func(int) string
	}{
		{"plain", numbered},
		{"escaped", func(i int) string { return fmt.Sprintf(`\u006b%d`, i) }},
		{"long", func(i int) string { return fmt.Sprintf("%0100d", i) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			doc := []byte(object(members, test.key))
			if err := jsonx.Check(doc); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			// Only the table is allocated, doubling some twelve times.
			if n := testing.AllocsPerRun(1, func() { _ = jsonx.Check(doc) }); n > 60 {
				t.Errorf("%s: %v allocations, want at most 60", test.name, n)
			}
			doc = append(doc[:len(doc)-1], []byte(fmt.Sprintf(`,"%s":0}`, test.key(7)))...)
			if jsonx.Check(doc) == nil {
				t.Errorf("%s: duplicate accepted", test.name)
			}
		})
	}
	many := []byte("[" + strings.Repeat(`{"\n":1},`, scopes) + "1]")
	if err := jsonx.Check(many); err != nil {
		t.Errorf("many scopes: %v", err)
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	needPools(t)
	for name, doc := range documents() {
		if n := testing.AllocsPerRun(100, func() { _ = jsonx.Check(doc) }); n >= 1 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

var noError = testkit.NoError
