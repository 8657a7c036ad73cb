package schema_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

func compile(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(raw), schema.Limits{})
	noError(t, err)
	return s
}

func TestValidate(t *testing.T) {
	const big = `{"properties":{"count":{"type":"integer","minimum":1,"maximum":9},"name":{"type":"string","minLength":2,"maxLength":4,"pattern":"^[a-z]+$"},"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true,"minItems":1},"mode":{"enum":["on","off"]},"half":{"multipleOf":0.5,"exclusiveMaximum":2.5}},"required":["count"],"additionalProperties":false}`
	tests := []struct {
		name, schema, doc, want string // want is the error, "" for none
	}{
		{"valid", big, `{"count":3,"name":"abc","tags":["a","b"],"mode":"on","half":1.5}`, ""},
		{"integer with a fraction of zero", big, `{"count":3.0}`, ""},
		{"absent is an empty object", `{"required":["a"]}`, ``, `field "a": is required`},
		{"absent and nothing required", `{"type":"object"}`, ``, ""},
		{"required", big, `{}`, `field "count": is required`},
		{"wrong case is another member", big, `{"Count":3}`, `field "Count": is not a member the schema allows`},
		{"type", big, `{"count":"hunter2"}`, `field "count": must be an integer, got string`},
		{"fraction", big, `{"count":1.5}`, `field "count": must be an integer, got number`},
		{"null", big, `{"count":null}`, `field "count": must be an integer, got null`},
		{"minimum", big, `{"count":0}`, `field "count": must be at least 1`},
		{"maximum", big, `{"count":10}`, `field "count": must be at most 9`},
		{"minLength counts characters", big, `{"count":1,"name":"é"}`, `field "name": must have at least 2 characters`},
		{"maxLength", big, `{"count":1,"name":"abcde"}`, `field "name": must have at most 4 characters`},
		{"pattern", big, `{"count":1,"name":"ABC"}`, `field "name": must match the pattern "^[a-z]+$"`},
		{"item", big, `{"count":1,"tags":["a",2]}`, `field "tags.1": must be a string, got number`},
		{"first of items", big, `{"count":1,"tags":["a",2,3,4,5,6,7,8,9,10,11,12]}`, `field "tags.1": must be a string, got number`},
		{"unique", big, `{"count":1,"tags":["a","a"]}`, `field "tags": must not hold the same item twice`},
		{"minItems", big, `{"count":1,"tags":[]}`, `field "tags": must have at least 1 item`},
		{"enum", big, `{"count":1,"mode":"secret"}`, `field "mode": must be one of: "on", "off"`},
		{"enum of many", `{"enum":["a","b","c","d","e","f","g","h","i","j","k","l"]}`, `"secret"`,
			`must be one of: "a", "b", "c", "d", "e", "f", "g", "h", "i", "j" and 2 more`},
		{"enum of simple values", `{"enum":["1",1.50,true,null]}`, `"secret"`,
			`must be one of: "1", 1.50, true, null`},
		{"enum of long and odd text", `{"enum":["a\n\"","` + strings.Repeat("é", 60) + `"]}`, `1`,
			`must be one of: "a\n\"", "` + strings.Repeat("é", 40) + `…"`},
		{"enum of nothing", `{"properties":{"x":{"enum":[]}}}`, `{"x":1}`, `field "x": must be one of the allowed values`},
		{"enum by value", `{"items":{"enum":[1.50,-0.0,{"a":[1e2,"1"]},123456789012345678901]}}`, `[1.5,15e-1,0,-0,0e9,{"a":[100,"1"]},123456789012345678901.0]`, ``},
		{"enum of other values", `{"enum":[1.5,"1",{"a":[100,"1"]}]}`, `{"a":["100","1"]}`,
			`must be one of the allowed values`},
		{"integer spelled with an exponent", `{"items":{"type":"integer"}}`, `[1e2,1.50e1,-0.0,10e-1,12e-1]`, `field "4": must be an integer, got number`},
		{"multipleOf", big, `{"count":1,"half":0.7}`, `field "half": must be a multiple of 0.5`},
		{"exclusiveMaximum", big, `{"count":1,"half":2.5}`, `field "half": must be less than 2.5`},
		{"first member by name", big, `{"count":"x","mode":"x","name":1}`, `field "count": must be an integer, got string`},
		{"document of wrong type", `{"type":"object"}`, `[1]`, `must be an object, got array`},
		{"false", `false`, `1`, `is not allowed`},
		{"anyOf", `{"properties":{"x":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"x":1}`, `field "x": must match one of the alternatives in the schema`},
		{"allOf", `{"allOf":[{"properties":{"x":{"type":"string"}}}]}`, `{"x":1}`, `field "x": must be a string, got number`},
		{"ref", `{"properties":{"x":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"x":1}`, `field "x": must be a string, got number`},
		{"several types", `{"type":["string","null"]}`, `1`,
			`must be null or a string, got number`},
		{"not", `{"properties":{"x":{"not":{"type":"string"}}}}`, `{"x":"a"}`, `field "x": is excluded by the schema`},
		{"const", `{"properties":{"x":{"const":1}}}`, `{"x":2}`, `field "x": must be the one allowed value`},
		{"const by value", `{"properties":{"x":{"const":1}}}`, `{"x":1.0}`, ``},
		{"2^53+1 is not 2^53", `{"const":9007199254740992}`, `9007199254740993`,
			`must be the one allowed value`},
		{"propertyNames", `{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `field "ab": is not a name the schema allows`},
		{"dependentRequired", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`,
			`field "b": is required beside "a"`},
		{"contains", `{"contains":{"type":"string"}}`, `[1]`, `must hold more items of the kind the schema asks for`},
		{"unevaluated", `{"properties":{"a":true},"unevaluatedProperties":false}`, `{"a":1,"b":2}`, `field "b": is not allowed`},
		{"unique by value", `{"uniqueItems":true}`, `[1,1.0]`, `must not hold the same item twice`},
		{"unique and alike", `{"uniqueItems":true}`, `[["a","b"],["ab"],["a\u0004b"],"a",["a"],{"a":1},{"a":"1"},1,-1,"1",true,null,"true",[],{}]`, ``},
		{"unique objects", `{"uniqueItems":true}`, `[{"a":1,"b":2},{"b":2.0,"a":1}]`,
			`must not hold the same item twice`},
		{"format", `{"format":"email"}`, `"nobody"`, `must be a valid email`},
		{"format regex", `{"format":"regex"}`, `"a["`, `must be a regular expression that RE2 understands`},
		{"format regex, often", `{"items":{"format":"regex"}}`,
			`[` + strings.Repeat(`"[ab]{1000}",`, 200) + `"a"]`, ``},
		{"format of the compiler", `{"format":"ipv4"}`, `"1.2.3"`, `must be a valid ipv4`},
		{"format of a draft", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"date"}`, `"2026-02-30"`, `must be a valid date`},
		{"unknown format", `{"format":"colour"}`, `"x"`, ``},
		{"draft-04 tuple", `{"$schema":"http://json-schema.org/draft-04/schema#","items":[{"type":"string"}],"additionalItems":false}`, `["a",1]`, `must not have 1 more items`},
		{"duplicate member", `{}`, `{"a":1,"a":2}`, `json: duplicate member "a" at byte 7`},
		{"huge number", `{"type":"integer","minimum":1}`, `1e1000000`,
			`a number's exponent is beyond 400`},
		{"least exponent", `{"type":"number","minimum":5}`, `1e-9223372036854775808`,
			`a number's exponent is beyond 400`},
		{"greatest exponent", `{"type":"number","maximum":5}`, `-1e9223372036854775807`,
			`a number's exponent is beyond 400`},
		{"huge number nested", `{}`, `[[{"a":1e-99999}]]`, `a number's exponent is beyond 400`},
		{"long number", `{}`, strings.Repeat("1", 900), `a number has more than 800 digits`},
		{"preservation accepts", preservation, `{"contactMethod":"phone","phone":"1"}`, ``},
		{"preservation refuses", preservation, `{"contactMethod":"phone","email":"1"}`,
			`field "phone": is required`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			for range 5 { // a stable report
				err := s.Validate([]byte(tt.doc))
				got := ""
				if err != nil {
					got = err.Error()
					var e *schema.Error
					if !errors.As(err, &e) {
						t.Fatalf("got a %T, want *schema.Error", err)
					}
				}
				if got != tt.want {
					t.Fatalf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func TestErrorIsShort(t *testing.T) {
	s := compile(t, `{"additionalProperties":false}`)
	err := s.Validate([]byte(`{"` + strings.Repeat("é", 5000) + `":1}`))
	if err == nil || len(err.Error()) > 500 {
		t.Errorf("got %v", err)
	}
}

func TestErrorNeverHoldsValue(t *testing.T) {
	const mark = "hunter2"
	schemas := []string{
		`{"type":"integer"}`, `{"const":"x"}`, `{"enum":["a"]}`, `{"format":"email"}`,
		`{"format":"ipv4"}`, `{"format":"uuid"}`,
		`{"format":"regex"}`, `{"format":"json-pointer"}`, `{"format":"hostname"}`,
		`{"pattern":"^x"}`, `{"minLength":50}`, `{"maxLength":1}`,
		`{"not":{}}`, `{"anyOf":[{"type":"null"},{"maxLength":1}]}`, `{"oneOf":[{},{}]}`, `{"if":{},"then":{"maxLength":1}}`, `false`, `{"allOf":[{"const":1}]}`,
	}
	for _, inner := range schemas {
		s := compile(t, `{"properties":{"x":`+inner+`}}`)
		err := s.Validate([]byte(`{"x":"` + mark + `["}`))
		if err == nil {
			t.Errorf("%s: got no error", inner)
			continue
		}
		testkit.WantNoPart(t, inner, err.Error(), mark)
	}
}

// Schemas that visit each child twice would make 2^60 evaluations without a budget.
func TestDeepRecursion(t *testing.T) {
	deep := func(open, shut string, n int) string {
		return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n)
	}
	tests := []struct {
		name, schema, deep, shallow string
	}{
		{"items twice", `{"allOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}`, deep("[", "]", 60), deep("[", "]", 4)},
		{"items and contains", `{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`, deep("[", "]", 60), deep("[", "]", 4)},
		{"properties and pattern", `{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`, deep(`{"a":`, "}", 60), deep(`{"a":`, "}", 4)},
		{"expression language", `{"oneOf":[{"type":"object","properties":{"op":{"const":"and"},"args":{"items":{"$ref":"#"}}},"required":["op"]},{"type":"object","properties":{"op":{"const":"or"},"args":{"items":{"$ref":"#"}}},"required":["op"]},{"type":"number"}]}`,
			deep(`{"op":"and","args":[`, "]}", 30), deep(`{"op":"and","args":[`, "]}", 4)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			if err := s.Validate([]byte(tt.shallow)); err != nil {
				t.Errorf("shallow: %v", err)
			}
			within(t, 2*time.Minute, func() {
				err := s.Validate([]byte(tt.deep))
				testkit.WantPart(t, "the error", fmt.Sprint(err), "too large or too deep")
			})
		})
	}
}

// Large documents that take more than linear time to check, here or in the compiler's validator.
func TestCostlyDocuments(t *testing.T) {
	if testkit.Race {
		t.Skip("it measures time")
	}
	var collide, props strings.Builder
	for i := range 20000 {
		// These once had the same hash: the bits of i decide where strings begin.
		collide.WriteString(`["`)
		for bit := range 15 {
			if i>>bit&1 == 1 {
				collide.WriteString(`a","`)
			} else {
				collide.WriteString(`a\u0004`)
			}
		}
		collide.WriteString(`a"],`)
		fmt.Fprintf(&props, `"k%d":1,`, i)
	}
	names := func(format string, n int) string {
		var list strings.Builder
		for i := range n {
			fmt.Fprintf(&list, format, i)
		}
		return strings.TrimSuffix(list.String(), ",")
	}
	leaf := `{"properties":{` + names(`"p%d":true,`, 9) + `},"required":["z"]}`
	tests := []struct{ name, schema, doc string }{
		{"dependentRequired", `{"items":{"dependentRequired":{` + names(`"a%05d":[],`, 20_000) + `}}}`,
			"[" + strings.Repeat("{},", 700_000) + "{}]"},
		{"required", `{"type":"object","required":[` + names(`"a%05d",`, 25_000) + `]}`,
			"{" + names(`"b%06d":0,`, 350_000) + "}"},
		{"a long name",
			strings.Replace(fanOut(20, "anyOf"), `"a20":`, `"a20":`+leaf+`,"b":`, 1),
			`{"` + strings.Repeat("n", 2<<20) + `":0}`},
		{"uniqueItems", `{"uniqueItems":true}`, "[" + collide.String() + "1]"},
		{"long text and heavy pattern", `{"pattern":"^(a?){300}(a*)*b$"}`,
			`"` + strings.Repeat("a", 3<<20) + `"`},
		{"unevaluatedProperties",
			`{"allOf":[` + strings.Repeat(`{"properties":{"a":true}},`, 500) +
				`true],"unevaluatedProperties":true}`, `{` + props.String() + `"z":1}`},
		{"numbers", `{"items":{"type":"integer","multipleOf":3}}`, `[` + strings.Repeat("3e399,", 100000) + `3]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := compile(t, tt.schema)
			within(t, 30*time.Second, func() { _ = s.Validate([]byte(tt.doc)) })
		})
	}
}

func TestConcurrentValidate(t *testing.T) {
	s := compile(t, preservation)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if err := s.Validate([]byte(`{"contactMethod":"phone","phone":"1","address":{"city":"Rome"}}`)); err != nil {
					t.Error(err)
				}
				if err := s.Validate([]byte(`{"contactMethod":"phone"}`)); err == nil {
					t.Error("got no error")
				}
			}
		})
	}
	wg.Wait()
}

func TestCheckFormat(t *testing.T) {
	tests := []struct {
		format  string
		valid   []string
		invalid []string
	}{
		{"email", []string{"a@b.c", "first.last+tag@example.co.uk", "a@localhost",
			`"a b"@example.com`, "a@[127.0.0.1]", "a@[IPv6:::1]", "o'neil@example.com"},
			[]string{"", "a", "@b.c", "a@", ".a@b.c", "a.@b.c", "a..b@c.d", "a b@c.d", "a@b..c",
				"a@-b.c", "a@b_c.d", "a@[1.2.3]", "a@[::1]", "é@b.c", "a@b.c\n", "Bob <a@b.c>",
				`"a"b"@c.d`, "a@[x@y]", "a@[<b>@x]", "a@[\r\nBcc: c@d.e]",
				strings.Repeat("a", 65) + "@b.c", "a@" + strings.Repeat("b.", 130) + "c"}},
		{"uri", []string{"https://example.com/a?b=c#d", "mailto:a@b.c", "urn:isbn:1",
			"http://[::1]:80/", "a:b%20c"},
			[]string{"", "example.com", "/a", "//a/b", "http://a b", "http://a/<b>", "http://a/é",
				"http://a/%zz", "http://a/%2", ":", "1a:b", "http://a\n"}},
		{"date", []string{"2026-02-28", "2024-02-29", "0001-01-01"},
			[]string{"", "2026-2-28", "2026-02-29", "2026-13-01", "26-01-01",
				"2026-01-01T00:00:00Z", "2026/01/01", " 2026-01-01"}},
		{"date-time", []string{"2026-01-02T03:04:05Z", "2026-01-02t03:04:05z",
			"2026-01-02T03:04:05.123456789123Z", "2026-01-02T03:04:05+23:59",
			"1990-12-31T23:59:60Z", "1990-12-31T15:59:60-08:00"},
			[]string{"", "2026-01-02", "2026-01-02T03:04:05", "2026-01-02 03:04:05Z",
				"2026-01-02T3:04:05Z", "2026-01-02T24:00:00Z", "2026-01-02T03:60:05Z",
				"2026-01-02T03:04:61Z", "2026-01-02T03:04:60Z",
				"2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05+24:00",
				"2026-01-02T03:04:05+0100", "2026-02-30T00:00:00Z", "2026-01-02T03:04:05Z ",
				"2026-01-02T+3:04:05Z"}},
	}
	for _, tt := range tests {
		t.Run(tt.format, func(t *testing.T) {
			for _, s := range tt.valid {
				if !schema.CheckFormat(tt.format, s) {
					t.Errorf("%s: %q is refused", tt.format, s)
				}
			}
			for _, s := range tt.invalid {
				if schema.CheckFormat(tt.format, s) {
					t.Errorf("%s: %q is accepted", tt.format, s)
				}
			}
		})
	}
}

func ExampleSchema_Validate() {
	s, err := schema.Compile([]byte(`{"type":"object","properties":{"count":{"type":"integer"}}}`), schema.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Validate([]byte(`{"count":3}`)))
	fmt.Println(s.Validate([]byte(`{"count":"three"}`)))
	// Output:
	// <nil>
	// field "count": must be an integer, got string
}

var wrongItems = []struct{ name, schema, item, last string }{
	{"wrong type", `{"type":"string"}`, `1`, `1`},
	{"last wrong", `{"type":"integer"}`, `1`, `"x"`},
	{"wrong objects", `{"additionalProperties":false,"required":["b"]}`, `{"a":1}`, `{"a":1}`},
	{"last object wrong", `{"properties":{"a":{"type":"integer"}},"additionalProperties":false}`,
		`{"a":1}`, `{"b":1}`},
	{"no choice", `{"anyOf":[{"type":"string"},{"maximum":0}]}`, `1`, `1`},
	{"no last choice", `{"anyOf":[{"type":"string"},{"maximum":7}]}`, `1`, `9`},
	{"no value", `{"enum":["a","b",1]}`, `"b"`, `"c"`},
}

func wrongDocument(item, last string) []byte {
	return []byte("[" + strings.Repeat(item+",", (2<<20)/(len(item)+1)) + last + "]")
}

// Refusing a large document takes at most a fifth more memory than decoding it.
func TestWrongItems(t *testing.T) {
	if testkit.Race {
		t.Skip("it measures what is allocated")
	}
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for _, tt := range wrongItems {
		t.Run(tt.name, func(t *testing.T) {
			s, doc := compile(t, `{"items":`+tt.schema+`}`), wrongDocument(tt.item, tt.last)
			decoding := allocated(func() { decode(t, doc) })
			checking := allocated(func() {
				if s.ValidateChecked(doc) == nil {
					t.Error("the document is valid")
				}
			})
			if checking > decoding+decoding/5 {
				t.Errorf("takes %d bytes, decoding alone %d", checking, decoding)
			}
		})
	}
}

func BenchmarkWrongItems(b *testing.B) {
	for _, tt := range wrongItems {
		s, doc := compile(b, `{"items":`+tt.schema+`}`), wrongDocument(tt.item, tt.last)
		b.Run(tt.name+"/decode", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decode(b, doc)
			}
		})
		b.Run(tt.name+"/validate", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = s.ValidateChecked(doc)
			}
		})
	}
}

// BenchmarkFanOut spends the budget of a document.
func BenchmarkFanOut(b *testing.B) {
	for _, tt := range []struct{ name, schema, doc string }{
		{"anyOf", fanOut(30, "anyOf"), `1`},
		{"allOf", fanOut(30, "allOf"), `"a"`},
		{"oneOf", fanOut(30, "oneOf"), `"a"`},
		{"noted", `{"unevaluatedProperties":false,` +
			strings.Replace(fanOut(30, "allOf")[1:], `"string"`, `"object"`, 1), `{"a":1}`},
		{"names", `{"allOf":[{"properties":{"a":{"$ref":"#"},"b":true}},` +
			`{"properties":{"a":{"$ref":"#"},"b":true}}]}`,
			strings.Repeat(`{"b":1,"a":`, 60) + "1" + strings.Repeat("}", 60)},
		{"patterns", `{"patternProperties":{` + strings.Repeat(`"^[a-z]{1,9}`, 1) +
			`$":{"$ref":"#"},"a":{"$ref":"#"},"a+":{"$ref":"#"}}}`,
			strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)},
		{"unique", `{"uniqueItems":true}`, `[` + list(300_000, "%d")[1:]},
		{"contains", `{"contains":{"contains":{"type":"null"}}}`,
			"[" + strings.Repeat("[1,2,3,4,5,6,7],", 130_000) + "1]"},
	} {
		s := compile(b, tt.schema)
		b.Run(tt.name, func(b *testing.B) {
			var v any
			noError(b, jsonx.UnmarshalNumbers([]byte(tt.doc), &v))
			for b.Loop() {
				s.Walk(v)
			}
		})
	}
}

func decode(t testing.TB, doc []byte) {
	t.Helper()
	var v any
	noError(t, jsonx.UnmarshalNumbers(doc, &v))
}

var noError = testkit.NoError
