package form_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
	"github.com/rondo-mcp/rondo/internal/forms/schema"
	"github.com/rondo-mcp/rondo/internal/wire/jsonx"
)

type confirmation struct {
	Approve bool   `json:"approve"`
	Reason  string `json:"reason,omitempty" maxLength:"20"`
}

func TestAccept(t *testing.T) {
	type all struct {
		Text  string    `json:"text,omitempty" minLength:"2" maxLength:"4" default:"abc"`
		Mail  string    `json:"mail,omitempty" format:"email"`
		At    time.Time `json:"at,omitzero"`
		Count int8      `json:"count,omitempty" minimum:"1" default:"1"`
		Wide  int64     `json:"wide,omitempty"`
		UWide uint64    `json:"uwide,omitempty"`
		Float float64   `json:"float,omitempty" maximum:"1.5"`
		Small float32   `json:"small,omitempty"`
		Yes   *bool     `json:"yes"`
		One   string    `json:"one,omitempty" enum:"a,b"`
		Some  []string  `json:"some,omitempty" enum:"a,b,c" minItems:"1" maxItems:"2"`
	}
	f := derive[all](t)
	ok := func(s string) string { return s }
	const defaults = `{"text":"abc","count":1}`
	tests := []struct {
		name, content string
		want          string // the content, or the error without "form: "
	}{
		{"absent", ``, ok(defaults)},
		{"empty", `{}`, ok(defaults)},
		{"white space", " {\n} ", ok(defaults)},
		{"unknown members are dropped", `{"evil":{"a":[1]},"Text":"zz","text ":"zz","":1}`, ok(defaults)},
		{"order of the form", `{"one":"a","count":3,"text":"ab"}`,
			`{"text":"ab","count":3,"one":"a"}`},
		{"escaped name", `{"\u006fne":"a"}`, `{"text":"abc","count":1,"one":"a"}`},
		{"escaped value", `{"one":"\u0061"}`, `{"text":"abc","count":1,"one":"\u0061"}`},
		{"characters, not bytes", `{"text":"éééé"}`, `{"text":"éééé","count":1}`},
		{"escapes are one character", `{"text":"\u00e9\ud83d\ude00"}`, `{"text":"\u00e9\ud83d\ude00","count":1}`},
		{"integer with fraction of zero", `{"count":2.0}`, `{"text":"abc","count":2}`},
		{"integer with exponent", `{"wide":1e3}`, `{"text":"abc","count":1,"wide":1000}`},
		{"minus zero", `{"wide":-0}`, `{"text":"abc","count":1,"wide":-0}`},
		{"minus zero without a sign", `{"uwide":-0}`, `{"text":"abc","count":1,"uwide":0}`},
		{"largest int64", `{"wide":9223372036854775807}`, `{"text":"abc","count":1,"wide":9223372036854775807}`},
		{"largest uint64", `{"uwide":18446744073709551615}`, `{"text":"abc","count":1,"uwide":18446744073709551615}`},
		{"choices", `{"some":["a", "c"]}`, `{"text":"abc","count":1,"some":["a", "c"]}`},
		{"bool", `{"yes":false}`, `{"text":"abc","count":1,"yes":false}`},

		{"null", `null`, `the answer must be an object, got null`},
		{"array", `[]`, `the answer must be an object, got array`},
		{"cut short", `{"text"`, `the answer is not valid: json: missing colon at byte 7`},
		{"duplicate member", `{"one":"a","one":"b"}`, `the answer is not valid: json: duplicate member "one" at byte 11`},
		{"too deep", `{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
			`the answer is not valid: json: `},
		{"null for optional", `{"yes":null}`, ok(defaults)},
		{"text of number", `{"text":1}`, `field "text": must be a string, got number`},
		{"text of object", `{"text":{"a":1}}`, `field "text": must be a string, got object`},
		{"number of text", `{"count":"2"}`, `{"text":"abc","count":2}`},
		{"bool of text", `{"yes":"true"}`, `{"text":"abc","count":1,"yes":true}`},
		{"bool of number", `{"yes":1}`, `field "yes": must be a boolean, got number`},
		{"too short", `{"text":"a"}`, `field "text": must have at least 2 characters`},
		{"too long", `{"text":"abcde"}`, `field "text": must have at most 4 characters`},
		{"not an email", `{"mail":"me"}`, `field "mail": must be a valid email`},
		{"not a time", `{"at":"yesterday"}`, `field "at": must be a valid date-time`},
		{"leap second", `{"at":"1990-12-31T23:59:60Z"}`, `field "at": must be a date-time that a clock can show`},
		{"below", `{"count":0}`, `field "count": must be at least 1`},
		{"above the type", `{"count":128}`, `field "count": must be at most 127`},
		{"fraction", `{"count":1.5}`, `field "count": must be an integer, got number`},
		{"above int64", `{"wide":9223372036854775808}`, `field "wide": is out of range`},
		{"above uint64", `{"uwide":18446744073709551616}`, `field "uwide": is out of range`},
		{"below uint64", `{"uwide":-1}`, `field "uwide": must be at least 0`},
		{"float above", `{"float":1.50000000000000000001}`, `field "float": must be at most 1.5`},
		{"float out of range", `{"float":-1e399}`, `field "float": is out of range`},
		{"float32 out of range", `{"small":1e39}`, `field "small": is out of range`},
		{"huge exponent", `{"wide":1e1000000000}`, `field "wide": is out of range`},
		{"long number", `{"wide":` + strings.Repeat("1", 2000) + `}`,
			`field "wide": is out of range`},
		{"outside enum", `{"one":"A"}`, `field "one": must be one of: "a", "b"`},
		{"enum of array", `{"one":["a"]}`, `field "one": must be a string, got array`},
		{"choices of text", `{"some":"a"}`, `field "some": must be an array of strings, got string`},
		{"choices of numbers", `{"some":[1]}`, `field "some": must hold strings only, got number`},
		{"choices outside enum", `{"some":["a","x"]}`, `field "some": must hold nothing but: "a", "b", "c"`},
		{"no choices", `{"some":[]}`, `field "some": must have at least 1 item`},
		{"too many choices", `{"some":["a","b","c"]}`, `field "some": must have at most 2 items`},
		{"first fault in the form's order", `{"one":1,"text":1}`, `field "text": must be a string, got number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := f.Accept([]byte(tt.content))
			if strings.HasPrefix(tt.want, "{") {
				if err != nil || string(got) != tt.want {
					t.Fatalf("got %s, %v; want %s", got, err, tt.want)
				}
				var v all
				if err := jsonx.Unmarshal(got, &v); err != nil {
					t.Errorf("does not decode: %v", err)
				}
				return
			}
			var e *form.Error
			if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "form: "+tt.want) {
				t.Errorf("got %s, %v; want error %q", got, err, tt.want)
			}
			if got != nil {
				t.Errorf("got %s beside the error", got)
			}
		})
	}
}

// A gateway must read {"approve":false,"Approve":true} the same way.
func TestAcceptCase(t *testing.T) {
	f := derive[confirmation](t)
	_, err := f.Accept([]byte(`{"Approve":true}`))
	wantEqual(t, "error", fmt.Sprint(err), `form: field "approve": is required`)
	got, err := f.Accept([]byte(`{"approve":false,"Approve":true}`))
	if want := `{"approve":false}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := f.Accept(nil); err == nil {
		t.Error("an accept without content passes although a member is required")
	}
}

// Normalized content is returned unchanged; otherwise the result does not alias it.
func TestAcceptCopies(t *testing.T) {
	f := derive[confirmation](t)
	const written = `{"approve":true,"reason":"because"}`
	for _, tc := range []struct {
		name, content string
		itself        bool
	}{
		{"as it should be", written, true},
		{"another order", `{"reason":"because","approve":true}`, false},
		{"white space around", " " + written, false},
		{"white space behind", written + "\n", false},
		{"white space within", `{"approve": true,"reason":"because"}`, false},
		{"an unknown member", `{"approve":true,"reason":"because","more":1}`, false},
		{"an escaped name", `{"approve":true,"re\u0061son":"because"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := []byte(tc.content)
			got, err := f.Accept(in)
			if err != nil || string(got) != written {
				t.Fatalf("got %s, %v", got, err)
			}
			if itself := &got[0] == &in[0]; itself != tc.itself {
				t.Errorf("returned itself: %t, want %t", itself, tc.itself)
			}
			clear(in)
			if !tc.itself && string(got) != written {
				t.Errorf("got %s after the content was overwritten", got)
			}
		})
	}
}

func TestAcceptManyFields(t *testing.T) {
	f, err := form.Parse([]byte(manyFields(form.MaxFields)), form.Options{})
	noError(t, err)
	got, err := f.Accept([]byte(`{"f99":"z","f0":"a","f100":"dropped"}`))
	if want := `{"f0":"a","f99":"z"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestErrorNeverHoldsValue(t *testing.T) {
	const mark = "hunter2"
	for _, property := range []string{
		`{"type":"string","maxLength":1}`, `{"type":"string","format":"email"}`,
		`{"type":"string","enum":["a"]}`, `{"type":"string","pattern":"^a$"}`,
		`{"type":"string","format":"uuid"}`, `{"type":"integer"}`, `{"type":"number"}`, `{"type":"boolean"}`, `{"type":"array","items":{"type":"string","enum":["a"]}}`,
	} {
		f, err := form.ParsePeer([]byte(object(property)))
		noError(t, err)
		for _, content := range []string{`{"x":"` + mark + `"}`, `{"x":["` + mark + `"]}`,
			`{"x":{"` + mark + `":"` + mark + `"}}`, `{"x":` + mark + `}`, `"` + mark + `"`} {
			_, err := f.Accept([]byte(content))
			if err == nil {
				t.Errorf("%s: %s is accepted", property, content)
			} else if strings.Contains(err.Error(), mark) {
				t.Errorf("%s: error holds the value: %v", property, err)
			}
		}
	}
}

// Restricting keywords outside the grammar are enforced.
func TestPeerKeywords(t *testing.T) {
	tests := []struct{ name, schema, content, want string }{
		{"pattern", object(`{"type":"string","pattern":"^a"}`), `{"x":"b"}`, `field "x": must match the pattern "^a"`},
		{"exclusiveMinimum", object(`{"type":"number","exclusiveMinimum":1}`), `{"x":1}`, `field "x": must be more than 1`},
		{"uniqueItems", object(`{"type":"array","uniqueItems":true,"items":{"type":"string","enum":["a"]}}`), `{"x":["a","a"]}`, `field "x": must not hold the same item twice`},
		{"other format", object(`{"type":"string","format":"uuid"}`), `{"x":"1"}`,
			`field "x": must be a valid uuid`},
		{"enum of integers", object(`{"type":"integer","enum":[1,2]}`), `{"x":3}`,
			`field "x": must be one of: 1, 2`},
		{"additionalProperties, of which none is left", `{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}`, `{"x":"b","y":1}`, ``},
		{"legacy enum", object(`{"type":"string","enum":["a"],"enumNames":["A"]}`), `{"x":"A"}`, `field "x": must be one of: "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := form.ParsePeer([]byte(tt.schema))
			noError(t, err)
			_, err = f.Accept([]byte(tt.content))
			checkError(t, "Accept", err, tt.want)
		})
	}
}

func TestConcurrentAccept(t *testing.T) {
	f := derive[everything](t)
	content := []byte(fullAnswer)
	want, err := f.Accept(content)
	noError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got, err := f.Accept(content); err != nil || string(got) != string(want) {
					t.Errorf("got %s, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

const fullAnswer = `{"name":"Ada","email":"ada@example.com","at":"2026-01-02T03:04:05Z","small":1,"wide":2,"ratio":0.5,"colour":"red","size":"s","palette":["r"],"Nickname":"A"}`

var fuzzSchemas = []string{
	object(`{"type":"string","minLength":1,"maxLength":3,"default":"ab"}`), object(`{"type":"string","format":"email"}`), object(`{"type":"string","format":"uri"}`),
	object(`{"type":"string","format":"date"}`), object(`{"type":"string","format":"date-time"}`), object(`{"type":"integer","minimum":-3,"maximum":1e3}`),
	object(`{"type":"number","minimum":0.5,"maximum":2.5,"default":1}`), object(`{"type":"boolean"}`), object(`{"type":"string","enum":["a","b"],"default":"a"}`),
	object(`{"type":"string","oneOf":[{"const":"a","title":"A"}]}`), object(`{"type":"array","items":{"type":"string","enum":["a","b"]},"minItems":1,"maxItems":2}`),
	object(`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}]},"default":["b"]}`),
	`{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"integer"}},"required":["x"]}`,
}

var fuzzContents = []string{
	`{}`, `null`, `{"x":null}`, `{"x":"ab"}`, `{"x":"a@b.c"}`, `{"x":"https://a/b"}`,
	`{"x":"2026-01-02"}`, `{"x":"2026-01-02T03:04:05Z"}`, `{"x":1}`, `{"x":1.0}`, `{"x":1e2}`,
	`{"x":0.5}`, `{"x":true}`, `{"x":["a","b"]}`, `{"x":["a",1]}`, `{"x":"a","y":2}`, `{"X":"a"}`,
	`{"x":1,"x":2}`, `{"x":1e1000}`, fullAnswer,
	`{"x":""}`, `{"x":"5"}`, `{"x":"5.0"}`, `{"x":" 5"}`, `{"x":"1e400"}`, `{"x":"true"}`,
}

// FuzzAccept compares the form's check with the compiled schema's, and decodes accepted content.
func FuzzAccept(f *testing.F) {
	if len(fuzzSchemas) == 0 || len(fuzzContents) == 0 {
		f.Fatal("no seeds")
	}
	var forms []*form.Form
	var schemas []*schema.Schema
	for _, s := range fuzzSchemas {
		parsed, err := form.Parse([]byte(s), form.Options{})
		noError(f, err)
		compiled, err := schema.Compile([]byte(s), schema.Limits{})
		noError(f, err)
		forms, schemas = append(forms, parsed), append(schemas, compiled)
	}
	derived := derive[everything](f)
	for _, c := range fuzzContents {
		f.Add([]byte(c))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for i, parsed := range forms {
			accepted, err := parsed.Accept(content)
			exactly := parsed.Check(content)
			if exactly == nil && err != nil {
				t.Errorf("%s: %q fits the schema, and Accept says %v", fuzzSchemas[i], content, err)
			}
			if compiled := schemas[i].Validate(accepted); err == nil && compiled != nil {
				t.Errorf("%s: accepted %s of %q does not fit: %v", fuzzSchemas[i], accepted,
					content, compiled)
			}
			filled, isObject := withDefaults(parsed.Schema(), content)
			if !isObject {
				if err == nil {
					t.Errorf("%s: accepted %q", fuzzSchemas[i], content)
				}
				continue
			}
			compiled := schemas[i].Validate(filled)
			if onlyUnknownNumber(compiled) {
				continue
			}
			if (exactly == nil) != (compiled == nil) {
				t.Errorf("%s: %q: the form says %v, the schema %v", fuzzSchemas[i], content,
					exactly, compiled)
			}
			if exactly == nil {
				again, err := parsed.Accept(accepted)
				if err != nil || string(again) != string(accepted) {
					t.Errorf("%s: accepted %s turns into %s, %v", fuzzSchemas[i], accepted, again,
						err)
				}
				if err == nil && &again[0] != &accepted[0] {
					t.Errorf("%s: accepted %s is copied when it comes back", fuzzSchemas[i],
						accepted)
				}
				// White space shows whether content was returned unchanged.
				if written, err := parsed.Accept(append(bytes.Clone(content),
					' ')); len(content) > 0 && (err != nil || string(written) != string(accepted)) {
					t.Errorf("%s: accepted %s, with a space behind it %s, %v", fuzzSchemas[i],
						accepted, written, err)
				}
			}
		}
		if accepted, err := derived.Accept(content); err == nil {
			var v everything
			if err := jsonx.Unmarshal(accepted, &v); err != nil {
				t.Errorf("accepted %s does not decode: %v", accepted, err)
			}
		}
	})
}

// withDefaults adds the defaults of absent members to content, or returns false if it is no object.
func withDefaults(raw, content []byte) ([]byte, bool) {
	var members map[string]json.RawMessage
	var described struct {
		Properties map[string]struct{ Default json.RawMessage }
	}
	if len(content) == 0 {
		content = []byte(`{}`)
	}
	if jsonx.Check(content) != nil || json.Unmarshal(content, &members) != nil || members == nil ||
		json.Unmarshal(raw, &described) != nil {
		return nil, false
	}
	for name, property := range described.Properties {
		if _, ok := members[name]; !ok && property.Default != nil {
			members[name] = property.Default
		}
	}
	filled, err := json.Marshal(members)
	return filled, err == nil
}

// onlyUnknownNumber reports whether the schema refused a number in a member that the form drops.
func onlyUnknownNumber(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "a number")
}

func FuzzParse(f *testing.F) {
	seeds := append([]string{object(`{"type":"string","pattern":"a","x-y":[{}]}`), object(`{"type":"object"}`), manyFields(20), `{"type":"object","properties":{}}`}, fuzzSchemas...)
	for _, s := range seeds {
		if s == "" {
			f.Fatal("empty seed")
		}
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		strict, err := form.Parse(raw, form.Options{AllowSecrets: true})
		loose, looseErr := form.ParsePeer(raw)
		if err == nil {
			if looseErr != nil {
				t.Fatalf("%q is within the grammar and refused of a peer: %v", raw, looseErr)
			}
			if strict.Digest() != loose.Digest() {
				t.Error("digests differ")
			}
			if _, err := schema.Compile(raw, schema.Limits{MaxSubschemas: 4000}); err != nil {
				t.Errorf("%q is within the grammar and no schema: %v", raw, err)
			}
		}
		if looseErr != nil {
			return
		}
		for _, content := range fuzzContents {
			_, _ = loose.Accept([]byte(content))
		}
	})
}

func BenchmarkAccept(b *testing.B) {
	for _, bench := range []struct {
		name    string
		form    *form.Form
		content string
	}{
		{"two fields", derive[confirmation](b), `{"approve":true,"reason":"because"}`},
		{"sixteen fields", derive[everything](b), fullAnswer},
	} {
		b.Run(bench.name, func(b *testing.B) {
			content := []byte(bench.content)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := bench.form.Accept(content); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDerive(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := form.Derive(reflect.TypeFor[confirmation](), form.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParsePeer(b *testing.B) {
	raw := derive[confirmation](b).Schema()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := form.ParsePeer(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleForm_Accept() {
	type order struct {
		Size  string `json:"size" enum:"small,large"`
		Count int    `json:"count,omitempty" minimum:"1" default:"1"`
	}
	f, err := form.Derive(reflect.TypeFor[order](), form.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(f.Schema()))
	content, err := f.Accept([]byte(`{"size":"large","rush":true}`))
	fmt.Println(string(content), err)
	_, err = f.Accept([]byte(`{"size":"large","count":0}`))
	fmt.Println(err)
	// Output:
	// {"type":"object","properties":{"size":{"type":"string","enum":["small","large"]},"count":{"type":"integer","minimum":1,"default":1}},"required":["size"]}
	// {"size":"large","count":1} <nil>
	// form: field "count": must be at least 1
}

func TestAcceptOneOfManyValues(t *testing.T) {
	f, err := form.ParsePeer([]byte(object(`{"type":"array","items":{"type":"string","enum":[` + manyValues(form.MaxValues) + `]}}`)))
	noError(t, err)
	last := fmt.Sprintf(`"v%d"`, form.MaxValues-1)
	if _, err := f.Accept([]byte(`{"x":["v0",` + last + `]}`)); err != nil {
		t.Error(err)
	}
	if _, err := f.Accept([]byte(`{"x":[` + last + `,"none of them"]}`)); err == nil {
		t.Error("a value that is not listed was accepted")
	}
}
