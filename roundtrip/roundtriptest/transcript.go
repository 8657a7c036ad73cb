package roundtriptest

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

// formatTranscript returns the questions, the answers and the result as text.
func (p *playedFlow) formatTranscript() string {
	var b strings.Builder
	b.WriteString(p.request.method + " " + p.request.target + "\n")
	for _, a := range p.asked {
		b.WriteString(a.formatLine())
	}
	b.WriteString("= " + strings.ReplaceAll(p.out.String(), "\n", "\n  ") + "\n")
	return b.String()
}

// formatSorted returns the questions and answers as sorted lines: a session may push the
// questions of a round in any order.
func (p *playedFlow) formatSorted() string {
	lines := make([]string, len(p.asked))
	for i, a := range p.asked {
		lines[i] = a.formatLine()
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (a askedQuestion) formatLine() string {
	return "? " + a.key + ": " + a.description + "\n! " + string(a.answer.result) + "\n"
}

// compareGolden compares a transcript with a file, or writes it.
func compareGolden(t *testing.T, file, got string) {
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
		t.Errorf("%s differs; set ROUNDTRIPTEST_UPDATE to write it\ngot:\n%s\nwant:\n%s", file, got,
			want)
	}
}
