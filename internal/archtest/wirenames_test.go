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
		{"log entry of the gateway", 10, gatewayStrings(t, `^gateway\.[a-z_]+$`)},
		{"metric of the gateway", 3, gatewayStrings(t, `^elicitation_[a-z_]+$`)},
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

// gatewayFiles are those of the gateway as a whole, and of the calls that it parks.
func gatewayFiles(t *testing.T) (files []string) {
	t.Helper()
	for _, dir := range []string{"elicitation/gateway", "internal/relay"} {
		found, err := filepath.Glob(filepath.Join(root(t), filepath.FromSlash(dir), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, slices.DeleteFunc(found, func(file string) bool {
			return strings.HasSuffix(file, "_test.go")
		})...)
	}
	return files
}

// gatewayStrings returns the texts of the gateway that match.
func gatewayStrings(t *testing.T, match string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	for _, file := range gatewayFiles(t) {
		for _, text := range testkit.StringsIn(t, file) {
			if regexp.MustCompile(match).MatchString(text) {
				found[text] = true
			}
		}
	}
	return found
}

// TestTroubleshootingHasTheTextsOfTheGateway wants each text on the page that a client, an upstream
// or a browser gets from a gateway.
func TestTroubleshootingHasTheTextsOfTheGateway(t *testing.T) {
	page := readPage(t, troubleshooting)
	verbs := regexp.MustCompile(`%[-+#.0-9]*[a-z]`)
	texts := make(map[string]bool)
	for _, file := range gatewayFiles(t) {
		ast.Inspect(testkit.ParseFile(t, file), func(n ast.Node) bool {
			for _, e := range textsSaid(n) {
				for _, text := range literals(e) {
					texts[strings.TrimSpace(verbs.ReplaceAllString(text, "…"))] = true
				}
			}
			return true
		})
	}
	if len(texts) < 30 {
		t.Errorf("found %d texts only", len(texts))
	}
	for text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("%s does not have the text %q", troubleshooting, text)
		}
	}
}

// textsSaid returns the expressions of a node that are said to others.
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
	add(all, constants(t, "elicitation/gateway/failure.go", regexp.MustCompile(`^why`)))
	add(all, constants(t, "internal/relay/park.go", regexp.MustCompile(`^Resume`)))
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
