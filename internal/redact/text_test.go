package redact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rondo-mcp/rondo/internal/redact"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

func TestEscapeText(t *testing.T) {
	for _, test := range []struct {
		name, text string
		limit      int
		want       string
	}{
		{"empty", "", 8, ""},
		{"plain", "Größe 日本", 64, "Größe 日本"},
		{"a forged line", "x\ny", 8, `x\ny`},
		{"a hidden direction", "a\u202eb", 8, `a\u202eb`},
		{"not UTF-8", "a\xffb", 8, `a\xffb`},
		{"as long as fits", "日本語", 3, "日本語"},
		{"one character too long", "日本語x", 3, "日本…"},
		{"an escape that does not fit", "ab\n", 3, "ab…"},
		{"an escape that fits", "ab\n", 4, `ab\n`},
		{"no room but for the ellipsis", "日本", 1, "…"},
	} {
		if got := redact.EscapeText(test.text, test.limit); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func FuzzEscapeText(f *testing.F) {
	f.Add("plain", uint8(3))
	f.Add("a\n\u202e\xff日本", uint8(4))
	f.Fuzz(func(t *testing.T, text string, limit uint8) {
		n := int(limit) + 1
		got := redact.EscapeText(text, n)
		if utf8.RuneCountInString(got) > n || !utf8.ValidString(got) ||
			strings.ContainsAny(got, "\r\n\x1b\u202e") {
			t.Errorf("%q, %d: %q", text, n, got)
		}
	})
}

func TestHideURLSecrets(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"nothing to hide", "dial tcp 10.0.0.7:443: refused", "dial tcp 10.0.0.7:443: refused"},
		{"query", `Get "https://h/x?token=1": EOF`, `Get "https://h/x?…`},
		{"fragment", "https://h/x#secret", "https://h/x#…"},
		{"question at the end", "really?", "really?"},
		{"an issue's number", "see #12 at https://u:p@h/", "see #12 at https://…@h/"},
		{"password", "https://u:p@h/x failed", "https://…@h/x failed"},
		{"two URLs", "a://u@h b://v:w@i", "a://…@h b://…@i"},
		{"a password with a slash", "https://u:p/w@h/x", "https://…@h/x"},
		{"a password with an at sign and a slash", "https://u:p@x/w@h/", "https://…@h/"},
		{"an at sign in the path", "file:///home/@scope/x", "file:///home/@scope/x"},
		{"an address after a URL", "https://h:1/x of ann@h", "https://h:1/x of ann@h"},
	} {
		if got := redact.HideURLSecrets(test.text); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// Errors of handlers and transports may quote whole messages.
func TestHidingGrowsWithTheText(t *testing.T) {
	hide := func(text []byte) bool { return redact.HideURLSecrets(string(text)) != "" }
	testkit.CheckGrowth(t, testkit.GrowthReader{Read: hide, BytesPerByte: 16, ObjectsPerByte: 1},
		testkit.GrowthInput{Name: "schemes", Make: testkit.Repeat("", "a://b:", "")},
		testkit.GrowthInput{Name: "users", Make: testkit.Repeat("", "a://u@h", "")},
		testkit.GrowthInput{Name: "URLs", Make: testkit.Repeat("", "a://u:p@h ", "")},
		testkit.GrowthInput{Name: "at signs", Make: testkit.Repeat("a://", "@", "")})
}
