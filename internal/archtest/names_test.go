package archtest_test

import (
	"bufio"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Tests lie with their subject and are named after behaviour. A name must not be made of the origin
// of the test: the row of a list that is not in the repository, or the occasion.
var (
	rowName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)_?[A-Z][0-9]|[a-z][EGM][0-9]{1,2}$`)

	occasionName = regexp.MustCompile(
		`(^|_)(review|defects|hostile|noisy|nested|gone|afterlife|pieces|unnoticed)_test\.go$`)
)

func TestTestsAreNamedAfterBehaviour(t *testing.T) {
	for _, file := range written(t) {
		if !strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/") {
			continue
		}
		if wrong := namesByOrigin(path.Base(file), functionsOf(t, file)); len(wrong) > 0 {
			t.Errorf("%s: %s: name the behaviour, in the file of the subject", file, wrong)
		}
	}
}

// namesByOrigin returns which of the names, of a file and its functions, are those of an origin.
func namesByOrigin(file string, functions []string) (wrong []string) {
	if occasionName.MatchString(file) {
		wrong = append(wrong, file)
	}
	for _, name := range functions {
		if rowName.MatchString(name) {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

// functionsOf returns the names of the functions of a file that have no receiver.
func functionsOf(t *testing.T, file string) (names []string) {
	t.Helper()
	name := filepath.Join(root(t), file)
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

func TestNamesByOrigin(t *testing.T) {
	for _, test := range []struct {
		name  string
		wrong bool
	}{
		{"TestG14NoSmuggling", true},
		{"TestM8M9M10Answers", true},
		{"Test_E12", true},
		{"TestLegacyRoundsG19", true},
		{"TestHTTP2", false},
		{"TestMemory", false},
		{"TestSessionOfV20251125", false},
		{"review_test.go", true},
		{"hostile_test.go", true},
		{"frame_hostile_test.go", true},
		{"preview_test.go", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if wrong := namesByOrigin(test.name,
				[]string{test.name}); (len(wrong) > 0) != test.wrong {
				t.Errorf("got %q, want an objection: %t", wrong, test.wrong)
			}
		})
	}
}

// TestOneFilePairForTheTagSoak wants the absence of the tag to be asked for in package testkit
// alone: everything else reads the constant there.
func TestOneFilePairForTheTagSoak(t *testing.T) {
	for _, file := range written(t) {
		if !strings.HasSuffix(file, ".go") || path.Dir(file) == "internal/testing/testkit" {
			continue
		}
		if buildsWithoutSoak(t, file) {
			t.Errorf("%s is built without the tag soak only: use the constant testmode.Soak", file)
		}
	}
}

// buildsWithoutSoak reports whether a file belongs to the build only when the tag soak is not set.
func buildsWithoutSoak(t *testing.T, file string) bool {
	t.Helper()
	f, err := os.Open(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "package ") {
			break
		}
		if expr, err := constraint.Parse(line); err == nil && constraint.IsGoBuild(line) {
			with := expr.Eval(func(tag string) bool { return true })
			without := expr.Eval(func(tag string) bool { return tag != "soak" })
			return without && !with
		}
	}
	return false
}
