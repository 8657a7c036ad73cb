package form_test

import (
	"testing"

	"github.com/rondo-mcp/rondo/internal/forms/form"
)

// Names and titles of any peer's schema are searched.
func TestSecretsOfPeersAreFound(t *testing.T) {
	for _, test := range []struct{ name, schema, field, word string }{
		{"none", `{"type":"object","properties":{"city":{"type":"string"}}}`, "", ""},
		{"name", `{"type":"object","properties":{"apiKey":{"type":"string"}}}`, "apiKey", "api key"},
		{"title", `{"type":"object","properties":{"x":{"type":"string","title":"Your password"}}}`,
			"x", "password"},
		{"number", `{"type":"object","properties":{"pin":{"type":"integer"}}}`, "pin", "pin"},
		{"boolean", `{"type":"object","properties":{"resetPassword":{"type":"boolean"}}}`, "", ""},
		{"choice", `{"type":"object","properties":{"secret":{"type":"string","enum":["a","b"]}}}`,
			"", ""},
		{"property of a secret",
			`{"type":"object","properties":{"passwordLength":{"type":"integer"}}}`, "", ""},
		{"beside a keyword of no form", `{"type":"object","additionalProperties":false,
			"properties":{"token":{"type":"string","pattern":"^a"}}}`, "token", "token"},
		{"in a keyword of no form", `{"type":"object","properties":{"a":{"type":"string"}},
			"allOf":[{"properties":{"otp":{"type":"string"}}}]}`, "otp", "otp"},
		{"boolean beside a keyword of no form", `{"type":"object","additionalProperties":false,
			"properties":{"resetPassword":{"type":"boolean"}}}`, "", ""},
		{"nested", `{"type":"object","properties":{"a":{"type":"object","properties":{
			"password":{"type":"string"}}}}}`, "password", "password"},
		{"in a list", `{"type":"object","properties":{"a":{"type":"array","items":{
			"type":"object","properties":{"b":{"type":"string","title":"Credit card"}}}}}}`,
			"b", "credit card"},
		{"nested choice", `{"type":"object","properties":{"a":{"type":"object","properties":{
			"secret":{"oneOf":[{"const":"x"},{"const":"y"}]}}}}}`, "", ""},
		{"nested text that looks like a choice", `{"type":"object","properties":{"a":{
			"type":"object","properties":{"secret":{"oneOf":[{"const":"x"},{}]}}}}}`,
			"secret", "secret"},
		{"an empty choice, which clients may show as a text", `{"type":"object","properties":{
			"password":{"type":"string","enum":[]}}}`, "password", "password"},
		{"an empty union", `{"type":"object","properties":{"password":{"type":"string","oneOf":[]}}}`,
			"password", "password"},
		{"items beside a text", `{"type":"object","properties":{"password":{"type":"string",
			"items":{"type":"boolean"}},"y":{"type":["string","boolean"]}}}`, "password", "password"},
		{"a title in a part, of a form that cannot be read", `{"type":"object","properties":{
			"x":{"allOf":[{"title":"Password","type":"string"}]},"y":{"type":["string","boolean"]}}}`,
			"x", "password"},
		{"not a schema", `{"properties":[{"title":"password"}]}`, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := form.FindPeerSecret([]byte(test.schema))
			if f, err := form.ParsePeer([]byte(test.schema)); err == nil {
				found = f.FindSecret()
			}
			if want := (form.Secret{test.field, test.word}); found != want {
				t.Errorf("found %+v, want %+v", found, want)
			}
		})
	}
}
