package archtest_test

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// troubleshooting is the page that says what to do.
const troubleshooting = "server/TROUBLESHOOTING.md"

// TestTroubleshootingNamesEveryName wants each code, reason, log entry and metric on the page.
func TestTroubleshootingNamesEveryName(t *testing.T) {
	page := readPage(t, troubleshooting)
	for _, group := range []struct {
		what  string
		least int
		names map[string]bool
	}{
		{"error code", 18, errorCodes(t)},
		{"reason or outcome", 85, reasons(t)},
		{"log entry", 30, logEntries(t)},
		{"metric", 30, metrics(t)},
	} {
		if len(group.names) < group.least {
			t.Errorf("%s: found %d only", group.what, len(group.names))
		}
		for name := range group.names {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s does not have the %s `%s`", troubleshooting, group.what, name)
			}
		}
	}
}

// constants returns the values of the constants of a file whose names match.
func constants(t *testing.T, file string, match *regexp.Regexp) map[string]bool {
	t.Helper()
	values := make(map[string]bool)
	tree := testkit.ParseFile(t, filepath.Join(root(t), filepath.FromSlash(file)))
	for _, decl := range tree.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.CONST {
			continue
		}
		for _, spec := range d.Specs {
			s := spec.(*ast.ValueSpec)
			for i, value := range s.Values {
				if !match.MatchString(s.Names[i].Name) {
					continue
				}
				if v := evaluate(value); v != "" {
					values[v] = true
				}
			}
		}
	}
	return values
}

// evaluate returns the value of a constant expression without names, as text.
func evaluate(e ast.Expr) string {
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(e))
	if err != nil || v.Value == nil {
		return ""
	}
	if v.Value.Kind() == constant.String {
		return constant.StringVal(v.Value)
	}
	return v.Value.ExactString()
}

func errorCodes(t *testing.T) map[string]bool {
	codes := constants(t, "protocol/errors.go", regexp.MustCompile(`^Code`))
	add(codes, constants(t, "server/serverhttp/streamwriter.go", regexp.MustCompile(`^code`)))
	add(codes, constants(t, "server/serverhttp/sessions.go", regexp.MustCompile(`^code`)))
	return codes
}

// reasons returns the values that fields of log entries and labels of metrics have.
func reasons(t *testing.T) map[string]bool {
	all := make(map[string]bool)
	for _, file := range []string{"event.go", "reason.go", "refused.go", "forwarded.go"} {
		add(all, constants(t, "roundtrip/event/"+file, regexp.MustCompile(`.`)))
	}
	add(all, constants(t, "internal/forms/form/fault.go", regexp.MustCompile(`^Rule`)))
	add(all, constants(t, "elicitation/errors.go", regexp.MustCompile(`^(Reason|By)`)))
	add(all, constants(t, "server/middleware/outcome.go", regexp.MustCompile(`^outcome`)))
	add(all, constants(t, "server/bearer/refusal.go", regexp.MustCompile(`.`)))
	return all
}

func logEntries(t *testing.T) map[string]bool {
	entries := make(map[string]bool)
	for dir, entryName := range map[string]*regexp.Regexp{
		"server/middleware": regexp.MustCompile(`^mcp\.[a-z_]+$`),
		"roundtrip/event":   regexp.MustCompile(`^mcp\.[a-z_]+$`),
		"elicitation":       regexp.MustCompile(`^elicitation\.[a-z_]+$`),
	} {
		files, err := filepath.Glob(filepath.Join(root(t), filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, text := range testkit.StringsIn(t, file) {
				if entryName.MatchString(text) {
					entries[text] = true
				}
			}
		}
	}
	return entries
}

// metrics returns the names that the documentation of the packages lists. Tests there keep it
// complete.
func metrics(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	file := filepath.Join(root(t), "server", "middleware", "metrics.go")
	ours := testkit.DocumentedMetrics(testkit.TypeComment(t, file, "Metrics"))
	router := testkit.DocumentedMetrics(testkit.DocSection(t,
		filepath.Join(root(t), "elicitation", "doc.go"), "Metrics"))
	for _, set := range []testkit.Names{ours, router} {
		for metric := range set {
			name, _, _ := strings.Cut(metric, "{")
			names[name] = true
		}
	}
	return names
}

func add(to, from map[string]bool) {
	for name := range from {
		to[name] = true
	}
}
