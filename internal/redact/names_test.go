package redact_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// Some names are forbidden, and similar names are allowed.
func TestSecretNames(t *testing.T) {
	for _, test := range []struct{ refused, admitted, reason string }{
		{"pin", "map_pin", "a PIN logs in, a pin is on a map"},
		{"PIN code", "pinned", "other words begin alike"},
		{"user_pin", "pinColor", "a pin has a colour"},
		{"pin_number", "pin_location", "and a place"},
		{"token", "token_count", "a count of them is none"},
		{"access_token", "tokens", "they are counted"},
		{"auth token", "next_page_token", "this one marks a place in a list"},
		{"session_token", "continuationToken", "and this one"},
		{"api-token", "stop_token", "a word at which a model stops"},
		{"wallet_token", "token_symbol", "a token that is traded"},
		{"page_password", "page_size", "what is harmless of a token is not of a password"},
		{"secret_id", "secret_name", "a secret_id logs in with AppRole, a name finds a secret"},
		{"client_secret", "secretary", "other words begin alike"},
		{"secret", "secret_santa", "a game"},
		{"credential", "credential_name", "a name finds a credential"},
		{"credentials", "credentialType", "a kind of credential is none"},
		{"bearer", "bearer_name", "a bearer is a token; whoever bears something has a name"},
		{"Bearer token", "forbearance", "other words hold it"},
		{"password", "password_policy", "a policy is none"},
		{"master password", "password manager", "a program"},
		{"api_key", "keyboard", "other words begin alike"},
		{"iban", "urban", "other words hold it"},
		{"otp", "option", "other words begin alike"},
	} {
		if redact.FindSecretName(test.refused) == "" {
			t.Errorf("%q is admitted", test.refused)
		}
		if word := redact.FindSecretName(test.admitted); word != "" {
			t.Errorf("%q is refused for %q: %s", test.admitted, word, test.reason)
		}
	}
}

// The same list of names masks the value after a name in a text.
func TestSecretNamesAreMaskedInTexts(t *testing.T) {
	for text, want := range map[string]string{
		"POST /?pin=4711&size=3":       "POST /?pin=[redacted]&size=3",
		"user_pin=4711":                "user_pin=[redacted]",
		`{"otp":"471112","n":"7"}`:     `{"otp":"[redacted]","n":"7"}`,
		"db-password=hunter2, retry":   "db-password=[redacted], retry",
		"accessToken=abc next":         "accessToken=[redacted] next",
		"authorization_code=abc":       "authorization_code=[redacted]",
		"session=abc":                  "session=[redacted]",
		"token_count=17":               "token_count=17",
		"secret_name=db":               "secret_name=db",
		"next_page_token=17":           "next_page_token=17",
		"compass=north, pins=3":        "compass=north, pins=3",
		"--token=abc --credential=abc": "--token=[redacted] --credential=[redacted]",
	} {
		var none redact.Secrets
		if got := none.Redact(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// Masking a peer's text takes linear time.
func TestGrowthOfMasking(t *testing.T) {
	mask := func(raw []byte) bool {
		var none redact.Secrets
		_ = none.Redact(string(raw))
		return true
	}
	testkit.CheckGrowth(t, testkit.GrowthReader{Read: mask, BytesPerByte: 48, ObjectsPerByte: 1},
		testkit.GrowthInput{Name: "names", Make: testkit.Repeat("", "a-", "=b")},
		testkit.GrowthInput{Name: "values", Make: testkit.Repeat("", "pin=1&", "")},
		testkit.GrowthInput{Name: "one name", Make: testkit.Repeat("", "a", "=b")})
	if strings.Contains(redact.FindSecretName(strings.Repeat("a_", 1000)), "a") {
		t.Error("a name of many words is a secret")
	}
}
