package archtest_test

import (
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path"
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

// longLines is how many lines over maxColumns a directory may hold. The figures only ever get
// smaller: lower one in the change that shortens its lines, and delete it when none is left.
var longLines = map[string]int{
	"client":                              285,
	"client/clienthttp":                   54,
	"elicitation":                         353,
	"elicitation/bustest":                 2,
	"elicitation/gosdk":                   93,
	"elicitation/mcpgo":                   92,
	"elicitation/natsbus":                 11,
	"examples/everything":                 72,
	"examples/everything-client":          7,
	"examples/gateway":                    33,
	"examples/quickstart":                 5,
	"examples/retrofit":                   10,
	"examples/wizard":                     23,
	"examples/writeonce":                  10,
	"internal/archtest":                   33,
	"internal/benchmarks":                 5,
	"internal/benchmarks/cases":           30,
	"internal/benchmarks/cmd/bench":       4,
	"internal/benchmarks/drive":           5,
	"internal/benchmarks/measure":         7,
	"internal/benchmarks/peers/gosdk":     10,
	"internal/benchmarks/peers/mcpgo":     4,
	"internal/benchmarks/peers/reference": 5,
	"internal/benchmarks/peers/rondo":     8,
	"internal/benchmarks/wire":            9,
	"internal/conformance":                10,
	"internal/conformance/verdict":        1,
	"internal/e2e":                        324,
	"internal/errprefix":                  2,
	"internal/fields":                     77,
	"internal/form":                       139,
	"internal/growthtest":                 1,
	"internal/headers":                    16,
	"internal/heartbeat":                  2,
	"internal/interop":                    247,
	"internal/jsonx":                      64,
	"internal/lazyctx":                    34,
	"internal/leaktest":                   12,
	"internal/lineio":                     2,
	"internal/natskv":                     1,
	"internal/natstest":                   1,
	"internal/proctest":                   6,
	"internal/quota":                      5,
	"internal/redact":                     18,
	"internal/replay":                     3,
	"internal/schema":                     218,
	"internal/seal":                       22,
	"internal/secrettest":                 2,
	"internal/specdata":                   1,
	"internal/sse":                        4,
	"internal/stack":                      2,
	"internal/urlrule":                    29,
	"internal/wiretest":                   72,
	"protocol":                            243,
	"roundtrip":                           662,
	"roundtrip/gosdk":                     362,
	"roundtrip/mcpgo":                     373,
	"roundtrip/natsguard":                 16,
	"roundtrip/roundtriptest":             75,
	"server":                              621,
	"server/middleware":                   255,
	"server/serverhttp":                   491,
}

// TestLinesAreNarrow counts the lines of Go files that are wider than maxColumns.
func TestLinesAreNarrow(t *testing.T) {
	found := make(map[string][]token.Position)
	for _, file := range written(t) {
		if !strings.HasSuffix(file, ".go") || strings.Contains(file, "/testdata/") {
			continue
		}
		src, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range wideLines(src) {
			dir := path.Dir(file)
			found[dir] = append(found[dir], token.Position{Filename: file, Line: line})
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if n, allowed := len(found[dir]), longLines[dir]; n > allowed {
			t.Errorf("%s has %d lines of more than %d columns, %d allowed; the last is %s",
				dir, n, maxColumns, allowed, found[dir][n-1])
		}
	}
	for dir := range longLines {
		if found[dir] == nil {
			t.Errorf("%s has no long lines any more: delete it from longLines", dir)
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
		{"one over the limit", "// " + strings.Repeat("x", 30) + strings.Repeat(" y", 33) + "zz", 1},
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
