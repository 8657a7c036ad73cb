package rules_test

import (
	"encoding/base64"
	"testing"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

// The first five rows are the specification's (basic/transports/streamable-http, "Value Encoding").
func TestHeaderValues(t *testing.T) {
	for _, test := range []struct{ name, value, header string }{
		{"plain", "us-west1", "us-west1"},
		{"not ASCII", "Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{"space around", " padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line feed", "line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"looks encoded", "=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"empty", "", ""},
		{"digits", "42", "42"},
		{"inner spaces", "two words, ~!\"\\", "two words, ~!\"\\"},
		{"tab", "\t", "=?base64?CQ==?="},
		{"inner tab", "a\tb", "=?base64?YQli?="},
		{"injected header", "a\r\nX-Injected: 1", "=?base64?YQ0KWC1JbmplY3RlZDogMQ==?="},
		{"NUL", "\x00", "=?base64?AA==?="},
		{"DEL", "\x7f", "=?base64?fw==?="},
		{"prefix and suffix overlap", "=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"encoded and empty", "=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="},
		{"markers in capitals", "=?BASE64?YQ==?=", "=?BASE64?YQ==?="}, // markers are case-sensitive
		{"no suffix", "=?base64?YQ==", "=?base64?YQ=="},
		{"no prefix", "x=?base64?YQ==?=", "x=?base64?YQ==?="},
		{"no-break space", "\u00a0", "=?base64?wqA=?="},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := rules.EncodeValue(test.value); got != test.header {
				t.Errorf("%q encodes as %q, want %q", test.value, got, test.header)
			}
			if got, err := rules.DecodeValue(test.header); err != nil ||
				got != test.value {
				t.Errorf("%q decodes as %q, %v; want %q", test.header, got, err, test.value)
			}
		})
	}
}

func TestDecodeValue(t *testing.T) {
	bad := "=?base64?" + base64.StdEncoding.EncodeToString([]byte{0xff}) + "?="
	for header, want := range map[string]string{ // "error" is never a value
		"=?base64??=":         "",
		"a\tb":                "a\tb", // may be sent plain
		"=?base64?=":          "=?base64?=",
		"=?base64?YQ?=":       "error", // padding is required
		"=?base64?YQ=?=":      "error",
		"=?base64?YQ===?=":    "error",
		"=?base64?YR==?=":     "error", // trailing bits: a second spelling of "a"
		"=?base64?Y Q==?=":    "error",
		"=?base64?YQ\r\n==?=": "error",
		"=?base64?YQ==\n?=":   "error",
		"=?base64?-_-_?=":     "error", // the other alphabet
		"=?base64?****?=":     "error",
		bad:                   "error", // not UTF-8
		"世界":                  "error",
		"a\nb":                "error",
		"a\x00":               "error",
		"\x7f":                "error",
		" a":                  "error",
		"a ":                  "error",
		"a\t":                 "error",
	} {
		got, err := rules.DecodeValue(header)
		if (err != nil) != (want == "error") || (err == nil && got != want) {
			t.Errorf("%q: got %q, %v; want %q", header, got, err, want)
		}
	}
}

func FuzzHeaderValue(f *testing.F) {
	for _, s := range []string{"us-west1", "Hello, 世界", " padded ", "a\tb", "=?base64?literal?=",
		"=?base64?=", "=?base64?YQ==?=", "\xff"} {
		f.Add(s)
		f.Add(rules.EncodeValue(s))
	}
	f.Fuzz(func(t *testing.T, s string) {
		header := rules.EncodeValue(s)
		for i := range len(header) {
			if header[i] < 0x20 || header[i] > 0x7e {
				t.Fatalf("%q encodes as %q", s, header)
			}
		}
		// Text that is not UTF-8 is not from JSON and must not decode as something else.
		got, err := rules.DecodeValue(header)
		if err == nil && got != s {
			t.Fatalf("%q came back as %q", s, got)
		}
		if err != nil && utf8.ValidString(s) {
			t.Fatalf("%q encodes as %q, which does not decode: %v", s, header, err)
		}
		// A decoded value encodes to a header that decodes the same.
		if value, err := rules.DecodeValue(s); err == nil {
			again, err := rules.DecodeValue(rules.EncodeValue(value))
			if err != nil || again != value {
				t.Fatalf("%q is %q and then %q, %v", s, value, again, err)
			}
		}
	})
}
