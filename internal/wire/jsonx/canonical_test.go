package jsonx_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func canonical(t *testing.T, doc string) string {
	t.Helper()
	got, err := jsonx.AppendCanonical([]byte("x"), []byte(doc))
	if err != nil || got[0] != 'x' {
		t.Fatalf("AppendCanonical(%.80s) = %.80s, %v", doc, got, err)
	}
	return string(got[1:])
}

func TestAppendCanonical(t *testing.T) {
	for _, test := range []struct {
		name, want string
		spellings  []string
	}{
		{"one", `1`, []string{"1", "1.0", "1e0", "10e-1", "1E+0", "0.1e1", "100.00E-0002", " 1 "}},
		{"zero", `0`, []string{"0", "-0", "0.000", "-0e5", "0e999999999999999999999", "0e-10001"}},
		{"minus one", `-1`, []string{"-1", "-10e-1"}},
		{"fraction", `15e-1`, []string{"1.5", "15e-1", "0.15e1", "1.50"}},
		{"small fraction", `-1e-3`, []string{"-0.001", "-1e-3"}},
		{"odd number over 2^53", `9007199254740993`,
			[]string{"9007199254740993", "9007199254740993.0"}},
		{"even number over 2^53", `9007199254740992`,
			[]string{"9007199254740992", "90071992547409920e-1"}},
		{"hundred", `100`, []string{"100", "1e2", "1000e-1"}},
		{"largest integer in full", `100000000000000000000`,
			[]string{"1e20", "100000000000000000000"}},
		{"smallest with an exponent", `1e21`, []string{"1e21", "1000000000000000000000", "10e20"}},
		{"many digits", `1234567890123456789012345`,
			[]string{"1234567890123456789012345", "1.234567890123456789012345e24"}},
		{"beyond float64", `1e400`, []string{"1e400", "10e399", "0.0001e404"}},
		{"largest exponent", `1e10000`,
			[]string{"1e10000", "1" + strings.Repeat("0", 10000), "0.01e10002"}},
		{"many zeros", `1`, []string{"0." + strings.Repeat("0", 19999) + "1e20000"}},
		{"array in an object", `{"a":1,"b":[true,null,"x"]}`, []string{`{"a":1,"b":[true,null,"x"]}`, `{ "b" : [ true , null , "\u0078" ] , "\u0061" : 1.0 }`}},
		{"order of names", `{"":1,"A":2,"a":{"x":1,"y":2},"é":3}`, []string{`{"é":3,"a":{"y":2,"x":1},"A":2,"":1}`, `{"\u00e9":3,"A":2,"":1,"a":{"x":1,"y":2}}`}},
		// U+E000 sorts before U+1F600 by bytes, after it by UTF-16 units.
		{"order by bytes", "{\"\\n\":0,\"\ue000\":1,\"\U0001f600\":2}", []string{`{"\ud83d\ude00":2,"\ue000":1,"\u000a":0}`}},
		{"escapes", "\"/\u2028<\\\"\\\\\\u0001\x7f\"", []string{`"\/\u2028\u003c\u0022\u005C\u0001\u007f"`}},
		{"empty array", `[]`, []string{`[ ]`}},
		{"empty object", `{}`, []string{`{ }`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, doc := range test.spellings {
				if got := canonical(t, doc); got != test.want {
					t.Errorf("AppendCanonical(%.80s) = %.80s, want %s", doc, got, test.want)
				}
			}
		})
	}
}

func TestAppendCanonicalRefuses(t *testing.T) {
	var rangeErr *jsonx.RangeError
	for _, doc := range []string{"1e10001", "1e-10001", "1e999999999", "-1e-99999999999999999999",
		"1" + strings.Repeat("0", 10001), "[1,{\"a\":12e10000000000}]"} {
		got, err := jsonx.AppendCanonical([]byte("kept"), []byte(doc))
		if !errors.As(err, &rangeErr) || string(got) != "kept" {
			t.Errorf("AppendCanonical(%.40s) = %.40s, %v, want a *RangeError", doc, got, err)
		}
	}
	for _, doc := range []string{"", "x", "nul", "01", "[1", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`,
		nested(jsonx.MaxDepth + 1), `{"b":1,"a":2,"b":3}`} {
		if got, err := jsonx.AppendCanonical([]byte("kept"), []byte(doc)); err == nil ||
			string(got) != "kept" {
			t.Errorf("AppendCanonical(%.40s) = %.40s, %v, want an error", doc, got, err)
		}
	}
	canonical(t, nested(jsonx.MaxDepth))
}

func TestAppendCanonicalSpelled(t *testing.T) {
	for doc, want := range map[string]string{
		` { "b" : [ 1.0 , 1e0 , 1 ,-0, 1E+05 ], "\u0061" : "\/" } `: `{"a":"/","b":[1.0,1e0,1,-0,1E+05]}`,
		`1e99999999999`: `1e99999999999`, // not expanded
		`"1.0"`:         `"1.0"`,
	} {
		if got, err := jsonx.AppendCanonicalSpelled([]byte("x"), []byte(doc)); err != nil ||
			string(got) != "x"+want {
			t.Errorf("AppendCanonicalSpelled(%s) = %s, %v, want x%s", doc, got, err, want)
		}
	}
	for _, doc := range []string{"", "01", "1.", "-", "+1", "[1", `{"a":1,"a":2}`,
		`{"b":1,"a":2,"b":3}`, nested(jsonx.MaxDepth + 1)} {
		if got, err := jsonx.AppendCanonicalSpelled([]byte("kept"), []byte(doc)); err == nil ||
			string(got) != "kept" {
			t.Errorf("AppendCanonicalSpelled(%.40s) = %.40s, %v, want an error", doc, got, err)
		}
	}
	if got := canonical(t, `[1.0,-0]`); got != `[1,0]` { // shared scratch memory
		t.Errorf("AppendCanonical([1.0,-0]) = %s", got)
	}
}

// Sorting at each level would double the work 64 times.
func TestAppendCanonicalUnsortedAtEachLevel(t *testing.T) {
	doc := "1"
	for range jsonx.MaxDepth {
		doc = `{"b":` + doc + `,"a":0}`
	}
	got := canonical(t, doc)
	if want := strings.Repeat(`{"a":0,"b":`, jsonx.MaxDepth) + "1" +
		strings.Repeat("}", jsonx.MaxDepth); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	many := object(200_000, func(i int) string { return fmt.Sprintf("%06d", 199_999-i) })
	if got := canonical(t, many); len(got) != len(many) ||
		!strings.HasPrefix(got, `{"000000":199999,"000001":`) {
		t.Errorf("200000 members: got %d bytes, %.40s", len(got), got)
	}
}

func TestAppendCanonicalDoesNotAllocate(t *testing.T) {
	needPools(t)
	dst := make([]byte, 0, 128<<10)
	for name, doc := range documents() {
		n := testing.AllocsPerRun(100, func() {
			if _, err := jsonx.AppendCanonical(dst, doc); err != nil {
				t.Error(err)
			}
		})
		if n >= 1 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}
