package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestErrorsArePrefixedInOnePlace refuses fmt.Errorf with the package's own name in front where the
// package has an errPrefix: only that one leaves the name out of what it wraps, so that no text has
// it twice.
func TestErrorsArePrefixedInOnePlace(t *testing.T) {
	found := 0
	for _, p := range list(t, []string{"-json=ImportPath,Name,Dir,GoFiles"}) {
		var texts []string
		for _, file := range p.files() {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(raw))
		}
		if !strings.Contains(strings.Join(texts, "\n"), "const errPrefix ") {
			continue
		}
		found++
		for i, text := range texts {
			for _, at := range prefixedByHand(t, p.Name, text) {
				t.Errorf("%s:%d: use errPrefix.Errorf", p.files()[i], at)
			}
		}
	}
	if found == 0 {
		t.Error("no package has an errPrefix: this rule looks at nothing")
	}
}

// prefixedByHand returns the lines on which fmt.Errorf is called with a text that begins with the
// name of the package.
func prefixedByHand(t *testing.T, name, text string) (lines []int) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || function.Sel.Name != "Errorf" {
			return true
		}
		of, isName := function.X.(*ast.Ident)
		format, isText := call.Args[0].(*ast.BasicLit)
		if !isName || of.Name != "fmt" || !isText {
			return true
		}
		if said, err := strconv.Unquote(format.Value); err == nil &&
			strings.HasPrefix(said, name+": ") {
			lines = append(lines, set.Position(call.Pos()).Line)
		}
		return true
	})
	return lines
}

func TestPrefixedByHandIsFound(t *testing.T) {
	const text = "package wire\n\nvar _ = fmt.Errorf(\"wire: %w\", err)\nvar _ = " +
		"fmt.Errorf(\"%w\", err)\nvar _ = errPrefix.Errorf(\"x: %w\", err)\n"
	if got := prefixedByHand(t, "wire", text); len(got) != 1 || got[0] != 3 {
		t.Errorf("got lines %v, want 3", got)
	}
}
