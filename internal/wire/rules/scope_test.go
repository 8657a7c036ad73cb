package rules_test

import (
	"slices"
	"testing"

	"github.com/rondo-mcp/rondo/internal/wire/rules"
)

func TestValid(t *testing.T) {
	for text, want := range map[string]bool{
		"files:read": true, "!": true, "~": true, "": false, "a b": false, `"`: false, `\`: false,
		"ä": false, "a\n": false, "\x7f": false,
	} {
		if got := rules.IsScopeList(text); got != want {
			t.Errorf("Valid(%q) is %v", text, got)
		}
	}
}

func TestUnionKeepsTheOrder(t *testing.T) {
	got := rules.UniteScopes([]string{"b", "a", `"`}, nil, []string{"c", "b"})
	if want := []string{"b", "a", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseScopes(t *testing.T) {
	if got, want := rules.ParseScopes("b  a b\tc"), []string{"b", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
