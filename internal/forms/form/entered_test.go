package form_test

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
)

func TestOptionalFieldsAreReadAsPeopleLeaveThem(t *testing.T) {
	const (
		email  = `{"type":"string","format":"email","default":"a@example.com"}`
		word   = `{"type":"string","minLength":1,"default":"w"}`
		text   = `{"type":"string","default":"t"}`
		one    = `{"type":"string","enum":["a","b"],"default":"a"}`
		many   = `{"type":"array","items":{"type":"string","enum":["a","b"]},"default":["a"]}`
		whole  = `{"type":"integer","minimum":1,"maximum":100,"default":7}`
		ratio  = `{"type":"number","default":0.5}`
		yes    = `{"type":"boolean","default":true}`
		letter = `{"type":"string","pattern":"^[a-z]","default":"p"}` // peers only
		free   = `{"type":"string","pattern":"^[a-z]*$","default":"p"}`
		refuse = ""
	)
	for _, test := range []struct{ name, field, sent, want string }{
		{"not sent", email, ``, `{"x":"a@example.com"}`},
		{"null text", text, `null`, `{}`},
		{"null email", email, `null`, `{}`},
		{"null choice", one, `null`, `{}`},
		{"null choices", many, `null`, `{}`},
		{"null integer", whole, `null`, `{}`},
		{"null boolean", yes, `null`, `{}`},
		{"empty email", email, `""`, `{}`},
		{"empty word", word, `""`, `{}`},
		{"empty choice", one, `""`, `{}`},
		{"empty choices", many, `""`, `{}`},
		{"empty integer", whole, `""`, `{}`},
		{"empty number", ratio, `""`, `{}`},
		{"empty boolean", yes, `""`, `{}`},
		{"empty text that the schema admits", text, `""`, `{"x":""}`},
		{"empty pattern", letter, `""`, `{}`},
		{"empty pattern that admits it", free, `""`, `{"x":""}`},
		{"wrong pattern", letter, `"1"`, refuse},
		{"blank is not empty", email, `" "`, refuse},
		{"choices that hold null", many, `[null]`, refuse},

		{"integer", whole, `"5"`, `{"x":5}`},
		{"integer by value", whole, `"5.0"`, `{"x":5}`},
		{"integer by exponent", whole, `"5e0"`, `{"x":5}`},
		{"integer in escapes", whole, `"\u0035"`, `{"x":5}`},
		{"fraction", whole, `"5.5"`, refuse},
		{"nearly an integer", whole, `"5.0000000000000000001"`, refuse},
		{"above the maximum", whole, `"101"`, refuse},
		{"number", ratio, `"-2.50"`, `{"x":-2.50}`},
		{"number of integer", ratio, `"9007199254740993"`, `{"x":9007199254740993}`},
		{"huge", ratio, `"1e400"`, refuse},
		{"huger", ratio, `"1e999999999"`, refuse},
		{"space before", whole, `" 5"`, refuse},
		{"leading zero", whole, `"05"`, refuse},
		{"not a number", ratio, `"NaN"`, refuse},
		{"other digits", whole, `"٥"`, refuse},
		{"a boolean for a number", whole, `"true"`, refuse},
		{"a list of a number", whole, `["5"]`, refuse},

		{"true", yes, `"true"`, `{"x":true}`},
		{"false", yes, `"false"`, `{"x":false}`},
		{"spaces", yes, `" true"`, refuse},
		{"yes", yes, `"yes"`, refuse},
		{"number one", yes, `1`, refuse},
		{"a number for text", text, `5`, refuse},
		{"a number of text stays", text, `"5"`, `{"x":"5"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := form.ParsePeer([]byte(object(test.field)))
			noError(t, err)
			content := `{"x":` + test.sent + `}`
			if test.sent == "" {
				content = `{}`
			}
			got, err := f.Accept([]byte(content))
			if (test.want == refuse) != (err != nil) || string(got) != test.want {
				t.Errorf("got %s, %v; want %q", got, err, test.want)
			}
			exact := test.sent == "" || string(got) == content || test.want == `{"x":""}`
			if err := f.Check([]byte(content)); (err == nil) != exact {
				t.Errorf("as it came: %v", err)
			}
			required, err := form.ParsePeer([]byte(`{"type":"object","properties":{"x":` +
				test.field + `},"required":["x"]}`))
			noError(t, err)
			if _, err := required.Accept([]byte(content)); (err == nil) != exact {
				t.Errorf("required: %v", err)
			}
		})
	}
}

// An emptied field must not hide the error of another field.
func TestEmptiedFieldsAmongOthers(t *testing.T) {
	f, err := form.ParsePeer([]byte(`{"type":"object","required":["a"],"properties":{
		"a":{"type":"string","pattern":"^a"},"b":{"type":"string","pattern":"^b"},
		"c":{"type":"string","pattern":"^c","default":"c"},"d":{"type":"string"}}}`))
	noError(t, err)
	for content, want := range map[string]string{
		`{"a":"a","b":"","c":"","d":""}`: `{"a":"a","d":""}`,
		`{"a":"","b":"","c":""}`:         `form: field "a": must match the pattern "^a"`,
		`{"a":"a","b":"","c":"x"}`:       `form: field "c": must match the pattern "^c"`,
		`{"a":null}`:                     `form: field "a": must be a string, got null`,
		`{"b":null,"c":null}`:            `form: field "a": is required`,
	} {
		got, err := f.Accept([]byte(content))
		if err != nil {
			got = json.RawMessage(err.Error())
		}
		if string(got) != want {
			t.Errorf("%s: got %s, want %s", content, got, want)
		}
	}
}

// FuzzEnteredText checks texts in optional numbers and booleans.
func FuzzEnteredText(f *testing.F) {
	for _, s := range []string{
		"", "5", "5.0", "-0", "1e2", "1e400", "1e-400", " 5", "0x5", "+5", "05", "true", "false",
		"TRUE", "yes", "null", "5\x00", "9007199254740993", `"5"`, "1E+2", "٥",
	} {
		f.Add(s)
	}
	parsed, err := form.ParsePeer([]byte(`{"type":"object","properties":{"n":{"type":"number"},
		"i":{"type":"integer"},"b":{"type":"boolean"}}}`))
	noError(f, err)
	f.Fuzz(func(t *testing.T, s string) {
		quoted, err := json.Marshal(strings.ToValidUTF8(s, "?"))
		if err != nil {
			t.Skip(err)
		}
		noError(t, json.Unmarshal(quoted, &s))
		for _, name := range []string{"n", "i", "b"} {
			got, err := parsed.Accept([]byte(`{"` + name + `":` + string(quoted) + `}`))
			var read map[string]json.RawMessage
			if err == nil && json.Unmarshal(got, &read) != nil {
				t.Fatalf("%q: accepted %s", s, got)
			}
			value := string(read[name])
			isNumber := json.Valid([]byte(s)) && strings.Trim(s, " \t\r\n") == s && s != "" &&
				strings.ContainsAny(s[:1], "-0123456789")
			switch {
			case s == "":
				if err != nil || string(got) != "{}" {
					t.Errorf("%s: nothing entered: %s, %v", name, got, err)
				}
			case err != nil:
			case name == "b" && value == s && (s == "true" || s == "false"):
			case name != "b" && isNumber:
				want, _ := new(big.Rat).SetString(s)
				have, ok := new(big.Rat).SetString(value)
				if !ok || want.Cmp(have) != 0 || name == "i" && !have.IsInt() {
					t.Errorf("%s: %q became %s", name, s, value)
				}
			default:
				t.Errorf("%s: %q became %s", name, s, got)
			}
		}
	})
}
