package redact_test

import (
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
		t.Run(tt.name, func(t *testing.T) {
			if got := s.Redact(tt.text); got != tt.want {
				t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

// TestRedactFailsClosed: what is too much to search for, or in, shows nothing.
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
