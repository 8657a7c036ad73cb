package roundtriptest

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// transcript is what was asked and answered, and what came of it.
func (p *played) transcript() string {
	var b strings.Builder
	b.WriteString(p.request.method + " " + p.request.target + "\n")
	for _, a := range p.asked {
		b.WriteString(a.line())
	}
	b.WriteString("= " + strings.ReplaceAll(p.out.String(), "\n", "\n  ") + "\n")
	return b.String()
}

// sorted is what was asked and answered in no order: a session may put the
// questions of a round in any.
func (p *played) sorted() string {
	lines := make([]string, len(p.asked))
	for i, a := range p.asked {
		lines[i] = a.line()
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (a asked) line() string {
	return "? " + a.key + ": " + a.words + "\n! " + string(a.answer.result) + "\n"
}

// golden compares a transcript with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("ROUNDTRIPTEST_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; set ROUNDTRIPTEST_UPDATE to write it", err)
	}
	if !bytes.Equal(want, []byte(got)) {
		t.Errorf("%s differs; set ROUNDTRIPTEST_UPDATE to write it\ngot:\n%s\nwant:\n%s", file, got, want)
	}
}
