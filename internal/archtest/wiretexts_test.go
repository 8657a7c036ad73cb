package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// speakers are the packages whose errors reach a client in our words.
var speakers = []string{
	"protocol", "roundtrip", "roundtrip/gosdk", "roundtrip/mcpgo", "server", "server/middleware",
	"server/serverhttp", "server/bearer", "elicitation", "elicitation/gosdk", "elicitation/mcpgo",
	"internal/forms/urlrule", "internal/wire/revision", "internal/wire/linestream",
	"internal/limits/quota", "internal/fleet/hophttp", "internal/limits/waiting",
	"internal/forms/form",
}

// speaking are the functions that take a text for a client.
var speaking = map[string]bool{
	"Errorf": true, "badRequestFault": true, "busyFault": true, "Refuse": true,
	"newFailure": true, "retryLaterError": true, "refuseFlow": true, "errorResult": true,
	"invalidQuestionError": true,
}

// textNames are the variables and fields that hold a text for a client until it is sent.
var textNames = map[string]bool{
	"text": true, "why": true, "message": true, "Message": true, "client": true,
	"MessageNoSession": true, "MessageTimeout": true, "ErrClosing": true, "errHumanTimeout": true,
	"howToFinish": true, "refusedLegacyText": true, "Words": true,
}

// wordings are functions that return a text for a client.
var wordings = regexp.MustCompile(
	`^(adviceOn|gaveUp|(explain|describe|withdraw)\w*|\w*Text|\w*[mM]essage)$`)

var formatVerb = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

// wireTexts returns the fixed texts that reach clients, with "…" for what differs, and the file
// of each.
func wireTexts(t *testing.T) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, dir := range speakers {
		files, err := filepath.Glob(filepath.Join(root(t), filepath.FromSlash(dir), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no Go files: %v", dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || strings.Contains(file, "selftest") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil,
				parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range textsOf(tree) {
				texts[text] = dir + "/" + filepath.Base(file)
			}
		}
	}
	return texts
}

// textsOf returns the texts for clients in a file.
func textsOf(tree *ast.File) []string {
	var texts []string
	add := func(e ast.Expr) {
		for _, text := range literals(e) {
			text = strings.Trim(formatVerb.ReplaceAllString(text, "…"), " ;:,")
			if strings.Contains(strings.Trim(text, "… "), " ") {
				texts = append(texts, text)
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if speaks(n.Fun) {
				for _, arg := range n.Args {
					add(arg)
				}
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && textNames[key.Name] {
				add(n.Value)
			}
		case *ast.AssignStmt:
			if isText(n.Lhs[0]) && len(n.Rhs) == len(n.Lhs) {
				for _, value := range n.Rhs {
					add(value)
				}
			}
		case *ast.FuncDecl:
			if n.Body != nil && (wordings.MatchString(n.Name.Name) || isRefusal(n)) {
				ast.Inspect(n.Body, func(n ast.Node) bool {
					if r, ok := n.(*ast.ReturnStmt); ok {
						for _, result := range r.Results {
							add(result)
						}
					}
					return true
				})
			}
		case *ast.ValueSpec:
			if textNames[n.Names[0].Name] && len(n.Values) > 0 {
				add(n.Values[0])
			}
		}
		return true
	})
	return texts
}

// isRefusal reports whether a method is the Error of what a person's refusal is reported as.
func isRefusal(f *ast.FuncDecl) bool {
	if f.Name.Name != "Error" || f.Recv == nil {
		return false
	}
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := star.X.(*ast.Ident)
	return ok && (name.Name == "DeclinedError" || name.Name == "CancelledError" ||
		name.Name == "AnswerError")
}

func isText(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && textNames[name.Name]
}

// speaks reports whether a function takes a text for a client. fmt.Errorf does not.
func speaks(fun ast.Expr) bool {
	switch f := fun.(type) {
	case *ast.Ident:
		return speaking[f.Name]
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		return speaking[f.Sel.Name] && !(ok && pkg.Name == "fmt")
	}
	return false
}

// literals returns the string constants that an expression consists of, neighbours joined.
func literals(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return nil
		}
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return nil
		}
		return []string{text}
	case *ast.BinaryExpr:
		return joinLiterals(e)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && len(e.Args) > 0 &&
			(f.Sel.Name == "Sprintf" || f.Sel.Name == "New") {
			return literals(e.Args[0])
		}
	case *ast.ParenExpr:
		return literals(e.X)
	}
	return nil
}

// joinLiterals returns the constants of a sum. What is not constant in it is left out.
func joinLiterals(e *ast.BinaryExpr) []string {
	left, right := literals(e.X), literals(e.Y)
	_, plain := e.Y.(*ast.BasicLit)
	if x, ok := e.X.(*ast.BinaryExpr); plain && len(left) > 0 && len(right) > 0 &&
		(!ok || isLiteral(x.Y)) {
		last := len(left) - 1
		return append(left[:last:last], left[last]+right[0])
	}
	return append(left, right...)
}

func isLiteral(e ast.Expr) bool {
	_, ok := e.(*ast.BasicLit)
	return ok
}

// troubleshooting is the page that says what to do.
const troubleshooting = "server/TROUBLESHOOTING.md"

// TestTroubleshootingNamesEveryText wants each text that a client may read on the page.
func TestTroubleshootingNamesEveryText(t *testing.T) {
	page := joinLines(readPage(t, troubleshooting))
	texts := wireTexts(t)
	if len(texts) < 100 {
		t.Fatalf("found %d texts only", len(texts))
	}
	for _, text := range slices.Sorted(maps.Keys(texts)) {
		if !strings.Contains(page, "`"+text+"`") {
			t.Errorf("%s does not have `%s` (%s)", troubleshooting, text, texts[text])
		}
	}
}

// joinLines returns a page in which no paragraph is broken into lines.
func joinLines(page string) string { return strings.Join(strings.Fields(page), " ") }
