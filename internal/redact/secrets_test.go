package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/redact"
)

func TestRedactTakesSecretsOut(t *testing.T) {
	var s redact.Secrets
	s.AddJSON([]byte(`{"who":"Ada Lovelace","amount":4711,"ok":true,"pin":"42","tags":["x-ray\n7"],"deep":{"no":"ü?&1"}}`))
	for _, value := range []string{"Bearer abcdef-0123456789", "sid=0123456789abc; theme=dark",
		"k-0123456789"} {
		s.AddCredential(value)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"nothing secret", "pq: password authentication failed for 10.0.0.7",
			"pq: password authentication failed for 10.0.0.7"},
		{"answer", "no account of Ada Lovelace", "no account of [redacted]"},
		{"part of an answer", "Ada", "Ada"},
		{"number", "4711 is too much", "[redacted] is too much"},
		{"whole words only", "pin 42, not 142 or 42a", "pin [redacted], not 142 or 42a"},
		{"escaped answer", fmt.Sprintf("tag %q", "x-ray\n7"), `tag "[redacted]"`},
		{"answer in a query", "at ?q=" + url.QueryEscape("ü?&1"), "at ?q=[redacted]"},
		{"word of a truth value", "ok is true", "ok is true"},
		{"bearer token", "refused: Bearer abcdef-0123456789", "refused: [redacted]"},
		{"token of the request", "token abcdef-0123456789 expired", "token [redacted] expired"},
		{"cookies", "cookie 0123456789abc and k-0123456789", "cookie [redacted] and [redacted]"},
		{"common word", "a dark theme", "a dark theme"},
		{"header of another call", "other call: Authorization: Bearer xyz.123",
			"other call: Authorization: Bearer [redacted]"},
		{"bearer and basic as words", "basic setup of a bearer of news",
			"basic setup of a bearer of news"},
		{"password of a DSN", "dsn host=db user=u password=hunter2 dbname=x",
			"dsn host=db user=u password=[redacted] dbname=x"},
		{"secret in JSON", `{"client_secret": "hunter2"}`, `{"client_secret": "[redacted]"}`},
		{"JWT", "got eyJhbGciOi.eyJzdWIi.sig", "got [redacted]"},
		{"token as a word", "invalid token: expired", "invalid token: expired"},
	} {
		if got := s.Redact(tt.text); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestRedactFailsClosed: text or secrets over the bounds show nothing.
func TestRedactFailsClosed(t *testing.T) {
	var many, large, none redact.Secrets
	for i := range 5000 {
		many.AddText(fmt.Sprintf("secret-%d", i))
	}
	for i := range 1000 {
		large.AddText(strings.Repeat("x", 10<<10) + fmt.Sprint(i))
	}
	for _, got := range []string{
		many.Redact("secret-4999"), large.Redact("x"), none.Redact(strings.Repeat("a", 20<<10)),
	} {
		if got != redact.LeftOut {
			t.Errorf("got %.40q", got)
		}
	}
}

// Secrets of eight bytes and more are found in any encoded text, at any offset.
func TestRedactFindsEncodedSecrets(t *testing.T) {
	for name, encode := range map[string]func([]byte) string{
		"base64":                base64.StdEncoding.EncodeToString,
		"base64 for URLs":       base64.URLEncoding.EncodeToString,
		"base64 without filler": base64.RawStdEncoding.EncodeToString,
		"hex":                   hex.EncodeToString,
		"upper case hex":        func(b []byte) string { return fmt.Sprintf("%X", b) },
	} {
		for _, secret := range []string{"hunter22", "pass phrase", "???>>>~~~\xff",
			"Zürich \"1\"\n2", strings.Repeat("long ", 50) + "."} {
			var s redact.Secrets
			s.AddText("something else")
			s.AddText(secret)
			for before := range 7 {
				for after := range 7 {
					plain := strings.Repeat("\xfb", before) + secret + strings.Repeat("}", after)
					got := s.Redact("cannot read <" + encode([]byte(plain)) + ">: bad")
					got = strings.ReplaceAll(got, "=", "")
					if got != "cannot read <[redacted]>: bad" {
						t.Fatalf("%s of %q: got %q", name, plain, got)
					}
				}
			}
			got := s.Redact("of JSON: " + encode(fmt.Appendf(nil, `{"x":%q}`, secret)))
			if strings.TrimRight(got, "=") != "of JSON: [redacted]" {
				t.Errorf("%s of %q in JSON: got %q", name, secret, got)
			}
		}
	}
}

func TestRedactFindsSecretsThatAreCutOff(t *testing.T) {
	var s redact.Secrets
	for _, secret := range []string{"correct horse battery staple", "https://db.example/ada?x=1",
		"https://db.example/ada?y=2", strings.Repeat("a secret that is longer than text ", 9)} {
		s.AddText(secret)
	}
	for text, want := range map[string]string{
		`bad "correct hors"`:              `bad "[redacted]"`,
		"bad correct horse ba...":         "bad [redacted]...",
		"bad correct horse b…":            "bad [redacted]…",
		"bad correct hors":                "bad [redacted]",
		"the correct horse":               "the [redacted]",
		"correct horsemen":                "correct horsemen",
		"correct h":                       "correct h",
		"GET https://db.example/bob: no":  "GET https://db.example/bob: no",
		"GET https://db.example/ada?: no": "GET [redacted]: no",
		"bad: a secret that is so long":   "bad: a secret that is so long",
		"bad: a secret that is longer":    "bad: [redacted]",
	} {
		if got := s.Redact(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestRedactLeavesOtherWords checks that text which only looks encoded stays.
func TestRedactLeavesOtherWords(t *testing.T) {
	var s redact.Secrets
	for _, secret := range []string{"authentication", "correct horse", "00000000"} {
		s.AddText(secret)
	}
	for _, text := range []string{
		"open internal/replicahttp/forward_test.go: no such file or directory",
		"id 6ba7b810-9dad-11d1-80b4-00c04fd430c8 of aGVsbG8gd29ybGQhIQ==",
		"dial tcp 10.0.0.7:5432: connect: connection refused",
	} {
		if got := s.Redact(text); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// BenchmarkRedact measures the usual and the worst case.
func BenchmarkRedact(b *testing.B) {
	for name, bench := range map[string]struct {
		secrets int
		text    string
	}{
		"usual": {10, "open internal/replicahttp/forward_test.go: no such file or directory"},
		"many, and plain text": {4000,
			strings.Repeat("cannot find Ada Lovelace in this table. ", 400)},
		"many, and one long word":     {4000, strings.Repeat("0123456789abcdef", 1000)},
		"nearly equal, over and over": {1, strings.Repeat("x", 16000)},
	} {
		b.Run(name, func(b *testing.B) {
			var s redact.Secrets
			for i := range bench.secrets {
				s.AddText(fmt.Sprintf("secret number %d %s", i, strings.Repeat("x", 200)))
			}
			s.AddText(strings.Repeat("x", 15999) + "y")
			for b.Loop() {
				s.Redact(bench.text)
			}
		})
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("Ada Lovelace", "no account of Ada Lovelace")
	f.Add("ab\"c\nd", `quoted "ab\"c\nd"`)
	f.Fuzz(func(t *testing.T, secret, text string) {
		var s redact.Secrets
		s.AddText(secret)
		secret = strings.TrimSpace(secret)
		got := s.Redact(text + secret)
		if len(secret) >= 8 && !strings.Contains(redact.LeftOut, secret) &&
			!strings.Contains(strings.ReplaceAll(text, secret, redact.Mask), secret) &&
			!strings.Contains(redact.Mask, secret) && strings.Contains(got, secret) &&
			!strings.Contains(strings.ReplaceAll(text+secret, secret, redact.Mask), secret) {
			t.Errorf("%q is in %q", secret, got)
		}
	})
}
