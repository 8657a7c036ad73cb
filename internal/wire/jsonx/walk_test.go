package jsonx_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func TestMembers(t *testing.T) {
	doc := " { \"b\" : [1, {\"x\":\"]}\"}] , \"\\u0061\":\"\\\"}\" ,\"c\":-1.5e3, \"d\":{} " +
		",\"e\":null}\n"
	var got []string
	err := jsonx.Members([]byte(doc), func(key, value []byte) error {
		got = append(got, string(key)+"="+string(value))
		return nil
	})
	want := []string{`b=[1, {"x":"]}"}]`, `a="\"}"`, `c=-1.5e3`, `d={}`, `e=null`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// The check records the members of small objects; members of other objects are searched for.
func TestCheckMembers(t *testing.T) {
	for _, doc := range []string{
		`{}`, `{"a":1}`, " { \"a\" : [ 1 , {\"b\":2} ] , \"c\" : {} , \"d\":\"}\\\"\",\"e\":[]\n} ", `{"a":{"b":{"c":1},"d":2},"e":3}`,
		`{"\u0061":1,"b":2}`, `{"b":2,"\u0061":1}`, object(8, numbered), object(9, numbered),
		object(100, numbered),
	} {
		want, err := spelled([]byte(doc), jsonx.Members)
		got, checked := spelled([]byte(doc), jsonx.CheckMembers)
		if err != nil || checked != nil || got != want {
			t.Errorf("%.60s: got %s, %v, want %s, %v", doc, got, checked, want, err)
		}
	}
	for _, doc := range []string{`[{"a":1}]`, `"a"`, `1`, ``, `{"a":1`, `{"a":1,"a":2}`,
		`{"a":{"b":1,"b":2}}`, `{"a":tru}`} {
		got, err := spelled([]byte(doc), jsonx.CheckMembers)
		if want := jsonx.Check([]byte(doc)); got != "" || fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%s: got %s, %v, want nothing and %v", doc, got, err, want)
		}
	}
	stop, calls := errors.New("stop"), 0
	err := jsonx.CheckMembers([]byte(`{"a":1,"b":2}`),
		func(_, _ []byte) error { calls++; return stop })
	if err != stop || calls != 1 {
		t.Errorf("got %v after %d calls, want the error of the first", err, calls)
	}
}

func TestElements(t *testing.T) {
	var got []string
	err := jsonx.Elements([]byte(` [ 1 ,"a,]" , [ [2],3 ] ,true] `),
		func(i int, value []byte) error {
			got = append(got, fmt.Sprint(i, "=", string(value)))
			return nil
		})
	want := []string{`0=1`, `1="a,]"`, `2=[ [2],3 ]`, `3=true`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestWalkStopsAtTheCallersError(t *testing.T) {
	stop := errors.New("stop")
	calls := 0
	if err := jsonx.Members([]byte(`{"a":1,"b":2}`),
		func(_, _ []byte) error { calls++; return stop }); err != stop || calls != 1 {
		t.Errorf("Members: got %v after %d calls", err, calls)
	}
	if err := jsonx.Elements([]byte(`[1,2]`),
		func(int, []byte) error { calls++; return stop }); err != stop || calls != 2 {
		t.Errorf("Elements: got %v after %d calls", err, calls)
	}
}

func TestWalkRefuses(t *testing.T) {
	members := func(doc string) error {
		return jsonx.Members([]byte(doc),
			func(_, _ []byte) error { return nil })
	}
	elements := func(doc string) error {
		return jsonx.Elements([]byte(doc),
			func(int, []byte) error { return nil })
	}
	for _, doc := range []string{``, ` `, `1`, `"{}"`, `null`, `[]`, `true`} {
		var te *jsonx.TypeError
		if err := members(doc); !errors.As(err, &te) || te.Want != jsonx.Object ||
			te.Got != jsonx.KindOf([]byte(doc)) {
			t.Errorf("Members(%q) = %v, want a *TypeError", doc, err)
		}
	}
	if err := elements(`{}`); err == nil || err.Error() != "json: want array, got object" {
		t.Errorf("Elements({}) = %v", err)
	}
	for _, doc := range []string{`{`, `{"`, `{"a`, `{"a\`, `{"a"`, `{"a":`, `{"a":}`, `{"a":1`,
		`{"a":[`, `{"a":1,`, `{"a":1,}`, `{"a":1]`, `{}1`, `{"a":1}1`, `{"\x":1}`} {
		if members(doc) == nil {
			t.Errorf("Members(%q) = nil", doc)
		}
	}
	for _, doc := range []string{`[`, `[,`, `[1`, `[1,`, `[1,]`, `["`, `[{`, `[1}`, `[]1`} {
		if elements(doc) == nil {
			t.Errorf("Elements(%q) = nil", doc)
		}
	}
}

func TestKindOf(t *testing.T) {
	for doc, want := range map[string]jsonx.Kind{
		"": jsonx.Invalid, "  ": jsonx.Invalid, "x": jsonx.Invalid, "N": jsonx.Invalid,
		" null": jsonx.Null, "true": jsonx.Bool, "false": jsonx.Bool, "-1": jsonx.Number,
		"\n7": jsonx.Number,
		`"`:   jsonx.String, "[": jsonx.Array, "\t{": jsonx.Object,
	} {
		if got := jsonx.KindOf([]byte(doc)); got != want {
			t.Errorf("KindOf(%q) = %v, want %v", doc, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"empty", `""`, ""},
		{"letters", `"abc"`, "abc"},
		{"space around", ` "a b" `, "a b"},
		{"short escapes", `"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{"code points", `"x\u00e9\u20AC\ud83d\ude00y"`, "x\u00e9\u20ac\U0001f600y"},
		{"escaped backslash", `"\\u0041"`, `\u0041`},
		{"NUL", `"\u0000"`, "\x00"},
		{"replacement character", `"\ufffd"`, "\ufffd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := jsonx.Text([]byte(test.raw)); got != test.want || err != nil {
				t.Errorf("Text(%s) = %q, %v, want %q", test.raw, got, err, test.want)
			}
		})
	}
	for _, raw := range []string{``, `1`, `null`, `"`, `"a`, `"a"b"`, `"a""b"`, `"\"`, `"\\" "`,
		`"\ud800"`, `"\u00"`, `"\n"b"`} {
		if got, err := jsonx.Text([]byte(raw)); err == nil {
			t.Errorf("Text(%s) = %q, want an error", raw, got)
		}
	}
	raw := []byte(`"alias"`)
	if b, _ := jsonx.TextBytes(raw); &b[0] != &raw[1] {
		t.Error("TextBytes copied a string without escapes")
	} else if _ = append(b, 'x'); raw[6] != '"' {
		t.Error("append to the result of TextBytes overwrote the document")
	}
}

func TestInt(t *testing.T) {
	for raw, want := range map[string]int64{
		"0": 0, "-0": 0, " 42\n": 42, "9007199254740993": 1<<53 + 1,
		"1.0": 1, "1e0": 1, "1E2": 100, "-0.0": 0,
		"50e-1": 5, "9007199254740993.0": 1<<53 + 1, "9223372036854775807": 1<<63 - 1,
		"-9223372036854775808": -1 << 63,
	} {
		if got, err := jsonx.Int([]byte(raw)); got != want || err != nil {
			t.Errorf("Int(%s) = %d, %v, want %d", raw, got, err, want)
		}
	}
	for _, raw := range []string{"", "-", "01", "1.5", "1e-1", "1e400", "1e999999999",
		"5.0000000000000000001", "9223372036854775808", "1e19", `"1"`,
		"null", "1 2", "0x1", "1_0"} {
		if got, err := jsonx.Int([]byte(raw)); err == nil {
			t.Errorf("Int(%s) = %d, want an error", raw, got)
		}
	}
}

func TestBoolean(t *testing.T) {
	for raw, want := range map[string]bool{"true": true, " false ": false} {
		if got, err := jsonx.Boolean([]byte(raw)); got != want || err != nil {
			t.Errorf("Boolean(%s) = %v, %v", raw, got, err)
		}
	}
	for _, raw := range []string{"", "1", "null", `"true"`, "True", "truex", "t"} {
		if _, err := jsonx.Boolean([]byte(raw)); err == nil {
			t.Errorf("Boolean(%s): want an error", raw)
		}
	}
}

func TestAppendText(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", `""`},
		{"plain", "plain ascii text", `"plain ascii text"`},
		{"quote and backslash", `a"b\c`, `"a\"b\\c"`},
		{"control characters", "\x00\b\f\n\r\t\x1f\x7f", `"\u0000\b\f\n\r\t\u001f` + "\x7f\""},
		{"HTML characters", "<&>", `"<&>"`},
		{"line separators", "é\u2028\u2029\u202a", `"é\u2028\u2029` + "\u202a\""},
		{"invalid bytes", "a\xffb\xc3", "\"a\ufffdb\ufffd\""},
		{"surrogate", "\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
		{"replacement character", "\ufffd", "\"\ufffd\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(jsonx.AppendText([]byte("x"), test.text)); got != "x"+test.want {
				t.Errorf("AppendText(%q) = %s, want %s", test.text, got[1:], test.want)
			}
			if got := string(jsonx.AppendTextBytes(nil, []byte(test.text))); got != test.want {
				t.Errorf("AppendTextBytes(%q) = %s, want %s", test.text, got, test.want)
			}
		})
	}
}

func TestAppendCompact(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":[1,"b c"]}`: `{"a":[1,"b c"]}`,
		" { \"a\" : [ 1 ,\n\t\" b\\\" c \" ] }\r\n": `{"a":[1," b\" c "]}`,
		"":    "",
		`" `:  `" `,
		" 1 ": "1",
	} {
		if got := string(jsonx.AppendCompact([]byte("x"), []byte(raw))); got != "x"+want {
			t.Errorf("AppendCompact(%q) = %q, want %q", raw, got[1:], want)
		}
	}
}

func TestWalkDoesNotAllocate(t *testing.T) {
	needPools(t)
	doc := documents()["call"]
	text, dst := strings.Repeat("plain \u00e9 text\n", 100), make([]byte, 0, 4096)
	for name, f := range map[string]func(){
		"Members":    func() { _ = jsonx.Members(doc, func(_, _ []byte) error { return nil }) },
		"AppendText": func() { dst = jsonx.AppendText(dst[:0], text) },
		"Int":        func() { _, _ = jsonx.Int(doc[:0]); _, _ = jsonx.Int([]byte("123")) },
	} {
		if n := testing.AllocsPerRun(100, f); n > 1 || n > 0 && name != "Int" {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
