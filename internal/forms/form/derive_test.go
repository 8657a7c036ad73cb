package form_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/forms/form"
)

type colour string

type everything struct {
	Name     string      `json:"name" jsonschema:"Your full name" title:"Full name" minLength:"1" maxLength:"80"`
	Email    string      `json:"email" format:"email"`
	Home     string      `json:"home,omitempty" format:"uri"`
	Born     string      `json:"born,omitzero" format:"date"`
	At       time.Time   `json:"at"`
	Age      int         `json:"age" minimum:"0" maximum:"150" default:"30"`
	Small    int8        `json:"small"`
	Port     uint16      `json:"port" minimum:"1" default:"443"`
	Wide     uint64      `json:"wide"`
	Ratio    float64     `json:"ratio" maximum:"1.5"`
	Agree    bool        `json:"agree" default:"false"`
	Colour   colour      `json:"colour" enum:"red,green, blue" enumTitles:"Red,Green,Deep blue" default:"green"`
	Size     *string     `json:"size" enum:"s,m"`
	Tags     []string    `json:"tags" enum:"a,b,c" minItems:"1" maxItems:"2" default:"a,b"`
	Palette  []colour    `json:"palette,omitempty" enum:"r,g" enumTitles:"Red,Green"`
	Exact    json.Number `json:"exact,omitempty" minimum:"0.1" default:"9007199254740993.10"`
	Nickname *string
	Skipped  string `json:"-"`
	hidden   string
}

func derive[T any](t testing.TB) *form.Form {
	t.Helper()
	f, err := form.Derive(reflect.TypeFor[T](), form.Options{})
	noError(t, err)
	return f
}

func TestDeriveEverything(t *testing.T) {
	_ = everything{}.hidden
	want := `{"type":"object","properties":{` + strings.Join([]string{
		`"name":{"type":"string","title":"Full name","description":"Your full name","minLength":1,"maxLength":80}`,
		`"email":{"type":"string","format":"email"}`,
		`"home":{"type":"string","format":"uri"}`,
		`"born":{"type":"string","format":"date"}`,
		`"at":{"type":"string","format":"date-time"}`,
		`"age":{"type":"integer","minimum":0,"maximum":150,"default":30}`,
		`"small":{"type":"integer","minimum":-128,"maximum":127}`,
		`"port":{"type":"integer","minimum":1,"maximum":65535,"default":443}`,
		`"wide":{"type":"integer","minimum":0}`,
		`"ratio":{"type":"number","maximum":1.5}`,
		`"agree":{"type":"boolean","default":false}`,
		`"colour":{"type":"string","oneOf":[{"const":"red","title":"Red"},{"const":"green","title":"Green"},{"const":"blue","title":"Deep blue"}],"default":"green"}`,
		`"size":{"type":"string","enum":["s","m"]}`,
		`"tags":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","enum":["a","b","c"]},"default":["a","b"]}`,
		`"palette":{"type":"array","items":{"anyOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}]}}`,
		`"exact":{"type":"number","minimum":0.1,"default":9007199254740993.10}`,
		`"Nickname":{"type":"string"}`,
	}, ",") + `},"required":["name","email","at","age","small","port","wide","ratio","agree","colour","tags"]}`
	for _, typ := range []reflect.Type{reflect.TypeFor[everything](),
		reflect.TypeFor[*everything]()} {
		f, err := form.Derive(typ, form.Options{})
		noError(t, err)
		wantEqual(t, fmt.Sprint(typ), string(f.Schema()), want)
		// A derived form is valid for handlers and peers.
		parsed, err := form.Parse(f.Schema(), form.Options{})
		if err != nil {
			t.Fatalf("Parse refuses it: %v", err)
		}
		peer, err := form.ParsePeer(f.Schema())
		if err != nil {
			t.Fatalf("ParsePeer refuses it: %v", err)
		}
		if parsed.Digest() != f.Digest() || peer.Digest() != f.Digest() {
			t.Error("digests differ")
		}
	}
}

func TestDeriveEmbedded(t *testing.T) {
	type Contact struct {
		Email string `json:"email" format:"email"`
	}
	type person struct {
		Name string `json:"name"`
		Contact
	}
	got := string(derive[person](t).Schema())
	want := `{"type":"object","properties":{"name":{"type":"string"},"email":{"type":"string","format":"email"}},"required":["name","email"]}`
	wantEqual(t, "the result", got, want)
	wantEqual(t, "empty struct", string(derive[struct{}](t).Schema()),
		`{"type":"object","properties":{}}`)
}

type decoding int

func (*decoding) UnmarshalText([]byte) error { return nil }

func TestDeriveErrors(t *testing.T) {
	type Inner struct {
		A string `json:"a"`
	}
	tests := []struct {
		name  string
		of    any
		field string
		want  string
	}{
		{"not a struct", 1, "", "not from int"},
		{"a map", map[string]string{}, "", "not from map[string]string"},
		{"time", time.Time{}, "", "not from time.Time"},
		{"nested object", struct {
			In Inner `json:"in"`
		}{}, "in", "a form is flat"},
		{"map", struct{ M map[string]string }{}, "M", "a form is flat"},
		{"any", struct{ V any }{}, "V", "a form is flat"},
		{"bytes", struct{ B []byte }{}, "B", "a form is flat"},
		{"ints", struct {
			N []int `enum:"1"`
		}{}, "N", "a form is flat"},
		{"list of json.Number", struct {
			N []json.Number `enum:"1"`
		}{}, "N", "a form is flat"},
		{"enum on json.Number", struct {
			N json.Number `enum:"1"`
		}{}, "N", "enum is for a string"},
		{"default of a json.Number", struct {
			N json.Number `default:"one"`
		}{}, "N", "is not a number"},
		{"array", struct {
			A [2]string `enum:"a"`
		}{}, "A", "a form is flat"},
		{"raw message", struct{ R json.RawMessage }{}, "R", "decodes itself"},
		{"address", struct{ A netip.Addr }{}, "A", "decodes itself"},
		{"self-decoding number", struct{ D decoding }{}, "D", "decodes itself"},
		{"double pointer", struct{ P **string }{}, "P", "a form is flat"},
		{"func", struct{ F func() }{}, "F", "a form is flat"},
		{"complex", struct{ C complex128 }{}, "C", "a form is flat"},
		{"strings without enum", struct{ S []string }{}, "S", "needs an enum tag"},
		{"embedded pointer", struct{ *Inner }{}, "Inner", "is embedded"},
		{"embedded with tag", struct {
			Inner `json:",omitempty"`
		}{}, "Inner", "is embedded"},
		{"same name twice", struct {
			A string `json:"B"`
			B string
		}{}, "B", "appears twice"},
		{"name of embedded taken", struct {
			A string `json:"a"`
			Inner
		}{}, "a", "appears twice"},
		{"bad name", reflect.Zero(reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[string](), Tag: `json:"a'b"`},
		})).Interface(), "a'b", "character in its name"},
		{"json string option", struct {
			N int `json:"n,string"`
		}{}, "n", `option "string"`},
		{"unknown format", struct {
			A string `format:"uuid"`
		}{}, "A", "none of email, uri, date and date-time"},
		{"format on number", struct {
			A int `format:"date"`
		}{}, "A", "format is for a string"},
		{"format on enum", struct {
			A string `format:"date" enum:"a"`
		}{}, "A", "format is for a string without enum"},
		{"date on time", struct {
			A time.Time `format:"date"`
		}{}, "A", "has the format date-time"},
		{"minLength on number", struct {
			A int `minLength:"1"`
		}{}, "A", "minLength does not apply to an integer"},
		{"minLength on enum", struct {
			A string `minLength:"1" enum:"a"`
		}{}, "A", "minLength does not apply to an enum"},
		{"minimum on string", struct {
			A string `minimum:"1"`
		}{}, "A", "minimum does not apply to a string"},
		{"minItems on string", struct {
			A string `minItems:"1"`
		}{}, "A", "minItems does not apply to a string"},
		{"negative length", struct {
			A string `minLength:"-1"`
		}{}, "A", "not a count"},
		{"wordy length", struct {
			A string `maxLength:"ten"`
		}{}, "A", "not a count"},
		{"min above max", struct {
			A string `minLength:"5" maxLength:"4"`
		}{}, "A", "minLength is above maxLength"},
		{"minimum above maximum", struct {
			A int `minimum:"5" maximum:"4"`
		}{}, "A", "minimum is above maximum"},
		{"minItems above maxItems", struct {
			A []string `minItems:"5" maxItems:"4" enum:"a"`
		}{}, "A", "minItems is above maxItems"},
		{"fraction for integer", struct {
			A int `minimum:"0.5"`
		}{}, "A", "not an integer"},
		{"not a JSON number", struct {
			A float64 `minimum:"0x10"`
		}{}, "A", "not a number"},
		{"beyond the type", struct {
			A int8 `maximum:"300"`
		}{}, "A", "the Go type ends at 127"},
		{"below the type", struct {
			A uint `minimum:"-1"`
		}{}, "A", "the Go type ends at 0"},
		{"enum on number", struct {
			A int `enum:"1,2"`
		}{}, "A", "enum is for a string"},
		{"enum on time", struct {
			A time.Time `enum:"1,2"`
		}{}, "A", "enum is for a string"},
		{"empty enum", struct {
			A string `enum:""`
		}{}, "A", "empty value"},
		{"value twice", struct {
			A string `enum:"a,b,a"`
		}{}, "A", `lists the value "a" twice`},
		{"titles without enum", struct {
			A string `enumTitles:"A"`
		}{}, "A", "needs an enum"},
		{"titles of another number", struct {
			A string `enum:"a,b" enumTitles:"A"`
		}{}, "A", "1 titles for 2 values"},
		{"default outside enum", struct {
			A string `enum:"a,b" default:"c"`
		}{}, "A", `must be one of: "a", "b"`},
		{"default item outside enum", struct {
			A []string `enum:"a,b" default:"a,c"`
		}{}, "A", `must hold nothing but: "a", "b"`},
		{"too many default items", struct {
			A []string `enum:"a,b" default:"a,b" maxItems:"1"`
		}{}, "A", "at most 1 item"},
		{"default too long", struct {
			A string `maxLength:"2" default:"abc"`
		}{}, "A", "at most 2 characters"},
		{"default out of format", struct {
			A string `format:"email" default:"me"`
		}{}, "A", "must be a valid email"},
		{"default below minimum", struct {
			A int `minimum:"3" default:"2"`
		}{}, "A", "must be at least 3"},
		{"default out of type", struct {
			A int8 `default:"200"`
		}{}, "A", "must be at most 127"},
		{"default not a number", struct {
			A int `default:"two"`
		}{}, "A", "not an integer"},
		{"default not a bool", struct {
			A bool `default:"yes"`
		}{}, "A", "neither true nor false"},
		{"default not a time", struct {
			A time.Time `default:"now"`
		}{}, "A", "must be a valid date-time"},
		{"tag not UTF-8", struct {
			A string `title:"\xff"`
		}{}, "A", "not UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := form.Derive(reflect.TypeOf(tt.of), form.Options{})
			var e *form.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			if e.Field != tt.field || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got field %q, error %q; want field %q, %q", e.Field, err, tt.field,
					tt.want)
			}
		})
	}
	if _, err := form.Derive(nil, form.Options{}); err == nil {
		t.Error("a nil type passes")
	}
}

func TestSecrets(t *testing.T) {
	secret := []string{
		"password", "Password", "userPassword", "user_password", "PASSWORD", "new-password",
		"passwd", "passphrase", "pwd",
		"secret", "clientSecret", "client_secret", "token", "accessToken", "access_token", "apiKey",
		"api_key", "API key", "APIKey", "apikey",
		"access key", "accessKeyId", "privateKey", "credential", "credentials", "cardNumber",
		"card_number", "credit_card", "creditCardNumber",
		"cvv", "CVC", "cvv2", "ssn", "pin", "PIN", "userPIN", "PINCode", "otp", "otp_code",
		"iban", "IBAN of the payee", "passportNumber", "Passport number", "bank_account",
		"bankAccountNumber", "oauth2token", "Your password, please",
	}
	harmless := []string{
		"name", "max_tokens", "tokens_per_minute", "maxTokens", "pinned", "pinboard", "secretary",
		"spinner", "shopping", "tokenize", "keyboard",
		"api", "key", "keyName", "card", "cardholder", "number", "passport", "compass", "opinion",
		"option", "token_limit", "tokenCount", "account", "accountName", "bank",
		"bankAccountType",
		"password_policy", "secretName", "apiKeyName", "class", "", "日本語",
	}
	schemaOf := func(name, title string) []byte {
		n, _ := json.Marshal(name)
		s, _ := json.Marshal(title)
		return []byte(`{"type":"object","properties":{` + string(n) + `:{"type":"string","title":` +
			string(s) + `}}}`)
	}
	check := func(what string, raw []byte, refused bool) {
		t.Helper()
		_, err := form.Parse(raw, form.Options{})
		if refused && (err == nil || !strings.Contains(err.Error(), "URL elicitation") ||
			!strings.Contains(err.Error(), "AllowSecrets")) {
			t.Errorf("%s: got %v, want a pointer to URL elicitation", what, err)
		}
		if !refused && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := form.Parse(raw, form.Options{AllowSecrets: true}); err != nil {
			t.Errorf("%s: refused although allowed: %v", what, err)
		}
		if _, err := form.ParsePeer(raw); err != nil {
			t.Errorf("%s: refused of a peer: %v", what, err)
		}
	}
	for _, name := range secret {
		check("name "+name, schemaOf(name, "x"), true)
		check("title "+name, schemaOf("x", name), true)
	}
	for _, name := range harmless {
		check("name "+name, schemaOf(name, "x"), false)
		check("title "+name, schemaOf("x", name), false)
	}
	check("a boolean", []byte(`{"type":"object","properties":{"reset_password":{"type":"boolean"}}}`), false)
	check("a choice", []byte(`{"type":"object","properties":{"token":{"type":"string","enum":["a"]}}}`), false)
	check("a number", []byte(`{"type":"object","properties":{"pin":{"type":"integer"}}}`), true)

	type login struct {
		Password string `json:"password"`
	}
	if _, err := form.Derive(reflect.TypeFor[login](), form.Options{}); err == nil {
		t.Error("Derive lets a password pass")
	}
	if _, err := form.Derive(reflect.TypeFor[login](),
		form.Options{AllowSecrets: true}); err != nil {
		t.Errorf("Derive: refused although allowed: %v", err)
	}
}
