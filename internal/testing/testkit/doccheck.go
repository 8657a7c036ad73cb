package testkit

// This file compares names in code with names in comments.

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// Names is a set of names.
type Names map[string]bool

// WantSame fails the test for each name that is in only one of the two sets.
func WantSame(t *testing.T, inCode, documented Names) {
	t.Helper()
	if len(inCode) == 0 {
		t.Error("found no names in the code")
	}
	for _, name := range slices.Sorted(maps.Keys(inCode)) {
		if !documented[name] {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !inCode[name] {
			t.Errorf("%s is documented and does not exist", name)
		}
	}
}

// ParseFile returns the syntax of a file, with comments.
func ParseFile(t *testing.T, name string) *ast.File {
	t.Helper()
	mode := parser.ParseComments | parser.SkipObjectResolution
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
	NoError(t, err)
	return file
}

// DocSection returns the section with a heading from a file's package comment.
func DocSection(t *testing.T, name, heading string) string {
	t.Helper()
	_, section, ok := strings.Cut(ParseFile(t, name).Doc.Text(), "\n# "+heading+"\n")
	if !ok {
		t.Fatalf("%s: the package comment has no section %q", name, heading)
	}
	section, _, _ = strings.Cut(section, "\n# ")
	return section
}

// TypeComment returns the comment of a type in a file.
func TypeComment(t *testing.T, name, typ string) string {
	t.Helper()
	for _, decl := range ParseFile(t, name).Decls {
		d, ok := decl.(*ast.GenDecl)
		if ok && d.Tok == token.TYPE && d.Specs[0].(*ast.TypeSpec).Name.Name == typ {
			return d.Doc.Text()
		}
	}
	t.Fatalf("%s does not declare %s", name, typ)
	return ""
}

// StringsIn returns a file's string literals, without imports and empty ones.
func StringsIn(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	ast.Inspect(ParseFile(t, name), func(n ast.Node) bool {
		if _, imported := n.(*ast.ImportSpec); imported {
			return false
		}
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && text != "" {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

var documented = regexp.MustCompile(`(?m)^\s*([a-z]+(?:_[a-z]+)+)(?:\{([a-z,]+)\})?(?:\s|$)`)

// CheckMetrics compares registered metrics with the metrics that begin a line of text.
func CheckMetrics(t *testing.T, text string, register func(event.MetricSink) error) {
	t.Helper()
	names := Names{}
	NoError(t, register(names))
	WantSame(t, names, DocumentedMetrics(text))
}

// Register implements [event.MetricSink].
func (n Names) Register(table []event.Series) ([]event.Vector, error) {
	for _, s := range table {
		n[metricName(s.Name, s.Labels)] = true
	}
	return event.RegisterSeries(nil, table)
}

// DocumentedMetrics returns the names and labels of the metrics that begin a line of text.
func DocumentedMetrics(text string) Names {
	names := Names{}
	for _, m := range documented.FindAllStringSubmatch(text, -1) {
		names[metricName(m[1], strings.Split(m[2], ","))] = true
	}
	return names
}

func metricName(name string, labels []string) string {
	return name + "{" + strings.Join(slices.Sorted(slices.Values(labels)), ",") + "}"
}
