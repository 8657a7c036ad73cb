package redact_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/redact"
)

func TestMaskParts(t *testing.T) {
	const token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl"
	tests := []struct {
		name, text string
		secrets    []string
		want       string
	}{
		{"nothing", "token expired", nil, "token expired"},
		{"other words", "token expired at noon", []string{token}, "token expired at noon"},
		{"whole", "cannot use " + token + ".", []string{token}, "cannot use [redacted]."},
		{"quoted", `cannot use "` + token + `"`, []string{token}, `cannot use "[redacted]"`},
		{"beginning", "cannot use " + token[:12] + "…", []string{token}, "cannot use [redacted]…"},
		{"segment", "signature c2lnbmF0dXJl does not fit", []string{token},
			"signature [redacted] does not fit"},
		{"end of a sentence", "no eyJzdWIiOiJhbm4ifQ.", []string{token}, "no [redacted]"},
		{"a pair, cut short", "bad token=" + token[:20] + "…", []string{token},
			"bad token=[redacted]…"},
		{"in a URL", "GET https://issuer/check?token=" + token[:20] + "&x=1", []string{token},
			"GET https://issuer/check?token=[redacted]&x=1"},
		{"in a path", "open /tokens/" + token[:20] + ".json", []string{token},
			"open /tokens/[redacted]json"},
		{"percent-encoded in part", "token eyJhbGciOiJIUzI1NiJ9%2EeyJzdWIiOiJhbm4ifQ",
			[]string{token}, "token [redacted]%2E[redacted]"},
		{"twice", token + " is not " + token, []string{token}, "[redacted] is not [redacted]"},
		{"with spaces", "password my dear dog is wrong", []string{"my dear dog"},
			"password [redacted] is wrong"},
		{"too short to be one", "a bad day", []string{"a", "bad", ""}, "a bad day"},
		{"the mask itself", "redacted redacted", []string{"reda", "reda", "[red", "acted"},
			"[redacted] [redacted]"},
		{"overlapping", "abcdefgh", []string{"abcde", "defgh"}, "[redacted]"},
		{"not UTF-8", "no \xff\xfe\xff\xfe", []string{"\xff\xfe\xff\xfe"}, "no [redacted]"},
	}
	for _, tt := range tests {
		if got := redact.MaskParts(tt.text, tt.secrets); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestTooMuchToSearch(t *testing.T) {
	for name, secrets := range map[string][]string{
		"long": {strings.Repeat("x", 20_000)},
		"many": make([]string, 20_000),
	} {
		if got := redact.MaskParts("token abc is bad", secrets); strings.Contains(got, "abc") ||
			!strings.HasPrefix(got, redact.Mask[:9]) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
