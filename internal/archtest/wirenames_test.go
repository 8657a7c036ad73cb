package archtest_test

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/testkit"
)

// troubleshooting has the pages that say what to do.
var troubleshooting = []string{"server/TROUBLESHOOTING.md", "server/LOG.md",
	"server/bearer/TROUBLESHOOTING.md", "elicitation/TROUBLESHOOTING.md"}

func readTroubleshooting(t *testing.T) (text string) {
	t.Helper()
	for _, page := range troubleshooting {
		text += readPage(t, page)
	}
	return text
}

// TestTroubleshootingNamesEveryName requires each code, reason, log entry and metric on the pages.
func TestTroubleshootingNamesEveryName(t *testing.T) {
	page := readTroubleshooting(t)
	for _, group := range []struct {
		what  string
		least int
		names map[string]bool
	}{
		{"error code", 18, union(
			constants(t, "protocol/errors.go", `^Code`),
			constants(t, "server/serverhttp/streamwriter.go", `^code`),
			constants(t, "server/serverhttp/sessions.go", `^code`))},
		{"reason or outcome", 85, union( // of log entries and metric labels
			constants(t, "roundtrip/event/event.go", `.`),
			constants(t, "internal/words/words.go", `.`),
			constants(t, "internal/forms/form/fault.go", `^Rule`),
			constants(t, "elicitation/errors.go", `^(Reason|By)`),
			constants(t, "elicitation/gateway/failure.go", `^why`),
			constants(t, "internal/relay/park.go", `^Resume`),
			constants(t, "server/middleware/outcome.go", `^outcome`),
			constants(t, "server/bearer/refusal.go", `.`))},
		{"log entry", 30, union(
			texts(t, "server/middleware", `^mcp\.[a-z_]+$`),
			texts(t, "roundtrip/event", `^mcp\.[a-z_]+$`),
			texts(t, "elicitation", `^elicitation\.[a-z_]+$`))},
		{"log entry of the gateway", 10, union(
			texts(t, "elicitation/gateway", `^gateway\.[a-z_]+$`),
			texts(t, "internal/relay", `^gateway\.[a-z_]+$`))},
		{"metric", 30, metrics(t)},
		{"metric of the gateway", 3, texts(t, "elicitation/gateway", `^elicitation_[a-z_]+$`)},
	} {
		if len(group.names) < group.least {
			t.Errorf("%s: found %d only", group.what, len(group.names))
		}
		for name := range group.names {
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%q do not have the %s `%s`", troubleshooting, group.what, name)
			}
		}
	}
}

// The function texts returns the matching texts in a folder's files.
func texts(t *testing.T, dir, match string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, file := range sourcesIn(t, dir) {
		for _, text := range testkit.StringsIn(t, file) {
			if regexp.MustCompile(match).MatchString(text) {
				found[text] = true
			}
		}
	}
	return found
}

func sourcesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), filepath.FromSlash(dir), "*.go"))
	noError(t, err)
	return slices.DeleteFunc(files, func(file string) bool {
		return strings.HasSuffix(file, "_test.go")
	})
}

// The pages must have each text that a client, an upstream or a browser gets from a gateway.
func TestTroubleshootingHasTheTextsOfTheGateway(t *testing.T) {
	page := readTroubleshooting(t)
	verbs := regexp.MustCompile(`%[-+#.0-9]*[a-z]`)
	said := make(map[string]bool)
	for _, dir := range []string{"elicitation/gateway", "internal/relay"} {
		for _, file := range sourcesIn(t, dir) {
			ast.Inspect(testkit.ParseFile(t, file), func(n ast.Node) bool {
				for _, e := range textsSaid(n) {
					for _, text := range literals(e) {
						said[strings.TrimSpace(verbs.ReplaceAllString(text, "…"))] = true
					}
				}
				return true
			})
		}
	}
	if len(said) < 30 {
		t.Errorf("found %d texts only", len(said))
	}
	for text := range said {
		if !strings.Contains(page, text) {
			t.Errorf("%q do not have the text %q", troubleshooting, text)
		}
	}
}

// textsSaid returns the expressions of a node whose text is sent to others.
func textsSaid(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		switch types.ExprString(n.Fun) {
		case "quota.Refuse", "protocol.Errorf", "http.Error", "refuse":
			return n.Args
		}
	case *ast.CompositeLit:
		if name := types.ExprString(n.Type); name == "upstreamError" && len(n.Elts) == 3 {
			return n.Elts[1:2]
		}
	case *ast.AssignStmt:
		if s, ok := n.Lhs[0].(*ast.SelectorExpr); ok && s.Sel.Name == "what" {
			return n.Rhs
		}
	}
	return nil
}

// literals returns the longest constant texts in an expression.
func literals(e ast.Expr) (texts []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		part, ok := n.(ast.Expr)
		if !ok {
			return true
		}
		text := evaluate(part)
		if words := strings.Fields(text); len(words) > 1 {
			texts = append(texts, text)
		}
		return text == ""
	})
	return texts
}

// evaluate returns the text of a constant expression without names.
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

// constants returns the values of a file's constants whose names match.
func constants(t *testing.T, file, match string) map[string]bool {
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
				if regexp.MustCompile(match).MatchString(s.Names[i].Name) {
					values[evaluate(value)] = true
				}
			}
		}
	}
	delete(values, "")
	return values
}

// The function metrics returns the documented names, which tests in those packages keep complete.
func metrics(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	file := filepath.Join(root(t), "server", "middleware", "metrics.go")
	for metric := range union(testkit.DocumentedMetrics(testkit.TypeComment(t, file, "Metrics")),
		testkit.DocumentedMetrics(testkit.DocSection(t,
			filepath.Join(root(t), "elicitation", "doc.go"), "Metrics"))) {
		name, _, _ := strings.Cut(metric, "{")
		names[name] = true
	}
	return names
}

func union(sets ...map[string]bool) map[string]bool {
	all := make(map[string]bool)
	for _, set := range sets {
		for name := range set {
			all[name] = true
		}
	}
	return all
}

var noError = testkit.NoError
