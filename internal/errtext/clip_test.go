package errtext_test

import (
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/errtext"
)

func TestTextsAreCutAtACharacter(t *testing.T) {
	for _, test := range []struct {
		name, text    string
		limit         int
		clipped, mark string
		quote         string
	}{
		{"short", "ab", 2, "ab", "ab", `"ab"`},
		{"long", "abc", 2, "ab", "ab…", `"ab…"`},
		{"within a character", "a€", 2, "a", "a…", `"a\xe2…"`},
		{"nothing fits", "€", 1, "", "…", `"\xe2…"`},
		{"no UTF-8", "\x80\x80\x80", 2, "", "…", `"\x80\x80…"`},
		{"control characters", "a\nb", 9, "a\nb", "a\nb", `"a\nb"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := errtext.Clip(test.text, test.limit); got != test.clipped {
				t.Errorf("Text: got %q, want %q", got, test.clipped)
			}
			if got := errtext.Mark(test.text, test.limit); got != test.mark {
				t.Errorf("Mark: got %q, want %q", got, test.mark)
			}
			if got := errtext.Quote(test.text, test.limit); got != test.quote {
				t.Errorf("Quote: got %s, want %s", got, test.quote)
			}
		})
	}
}

func TestLongListsAreCut(t *testing.T) {
	letters := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	for n, want := range map[int]string{
		0:  ``,
		1:  `"a"`,
		2:  `"a", "b"`,
		10: `"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"`,
		11: `"a", "b", "c", "d", "e", "f", "g", "h", "i", "j" and 1 more`,
		12: `"a", "b", "c", "d", "e", "f", "g", "h", "i", "j" and 2 more`,
	} {
		got := errtext.Values(n, func(i int) string { return errtext.Value(letters[i]) })
		if got != want {
			t.Errorf("%d values: got %s, want %s", n, got, want)
		}
	}
	if got, want := errtext.Value("\u202e"+strings.Repeat("é", 60)),
		`"\u202e`+strings.Repeat("é", 38)+
			`…"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
