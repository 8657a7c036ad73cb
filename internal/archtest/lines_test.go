package archtest_test

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The width of lines. A tab counts as many columns as most editors show.
const (
	maxColumns = 100
	tabColumns = 4

	// A literal or a word of this many columns cannot be broken without loss, so a line with one
	// may be longer: JSON texts of tests, struct tags, addresses.
	unbreakable = 40
)

// TestLinesAreNarrow wants the lines of all Go files within maxColumns.
func TestLinesAreNarrow(t *testing.T) {
	for _, file := range written(t) {
		if !strings.HasSuffix(file, ".go") || strings.Contains(file, "/testdata/") {
			continue
		}
		src, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		if wide := wideLines(src); len(wide) > 0 {
			t.Errorf("%s: lines %v are wider than %d columns", file, wide, maxColumns)
		}
	}
}

// wideLines returns the numbers of the lines that are wider than maxColumns, those with an
// unbreakable word left out.
func wideLines(src []byte) (wide []int) {
	excused := linesWithUnbreakables(src)
	for i, line := range strings.Split(string(src), "\n") {
		columns := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
		if columns > maxColumns && !excused[i+1] {
			wide = append(wide, i+1)
		}
	}
	return wide
}

// linesWithUnbreakables returns the lines that hold, or lie within, a long literal, and the lines
// of comments that hold a long word.
func linesWithUnbreakables(src []byte) map[int]bool {
	lines := make(map[int]bool)
	file := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		switch first := file.Line(pos); tok {
		case token.EOF:
			return lines
		case token.COMMENT:
			for i, line := range strings.Split(text, "\n") {
				long := func(word string) bool { return len(word) >= unbreakable }
				lines[first+i] = lines[first+i] || slices.ContainsFunc(strings.Fields(line), long)
			}
		case token.STRING:
			if len(text) >= unbreakable {
				for i := range 1 + strings.Count(text, "\n") {
					lines[first+i] = true
				}
			}
		}
	}
}

// TestWideLinesAreFound tries the counter on lines of each kind.
func TestWideLinesAreFound(t *testing.T) {
	wide := strings.Repeat("x ", 60)
	for _, test := range []struct {
		name, line string
		want       int
	}{
		{"comment", "// " + wide, 1},
		{"code", "var " + strings.Repeat("a, ", 40) + "b int", 1},
		{"comment behind code", "var a int // " + wide, 1},
		{"tabs count", "\t\t\t\t\t// " + strings.Repeat("x ", 40), 1},
		{"at the limit", "// " + strings.Repeat("x", 30) + strings.Repeat(" y", 33) + "z", 0},
		{"one over the limit", "// " + strings.Repeat("x", 30) + strings.Repeat(" y", 33) + "zz",
			1},
		{"address", "// see https://example.com/" + strings.Repeat("x", 90), 0},
		{"long literal", `var a = "` + wide + `"`, 0},
		{"short literals", `var a = "x"` + strings.Repeat(` + "x"`, 30), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := wideLines([]byte("package p\n\n" + test.line + "\n")); len(got) != test.want {
				t.Errorf("got lines %v, want %d", got, test.want)
			}
		})
	}
}
