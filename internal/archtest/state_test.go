package archtest_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"strings"
	"testing"
)

// mayKeepState are allowed package variables, with reasons.
var mayKeepState = map[string]string{
	"internal/wire/rpc.field": "set once, while package protocol is initialized, and never again",
	"roundtrip.forms": "a form is compiled once a type, and a program's types do not " +
		"change; only ever added to",
	"protocol.methods":                  "never changed: what each method takes and returns",
	"internal/testing/wiretest.update":  "a test binary's flag",
	"internal/testing/wiretest.schemas": "compiled once a test binary, only ever added to",
}

// subjects is the folder of the official suite's subjects, which keep questions in variables.
const subjects = "internal/conformance/everything"

// TestNoPackageState refuses func init and mutable package variables: variables that are assigned,
// or whose type allows changes. Examples, in their own module, may have these.
func TestNoPackageState(t *testing.T) {
	packages := list(t, []string{"-deps", "-export", "-json=ImportPath,Name,Dir,Export,GoFiles"})
	exports := make(map[string]string)
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	needed := make(map[string]bool)
	present := make(map[string]bool)
	for _, p := range packages {
		name, ok := rel(p.ImportPath)
		if !ok || strings.HasPrefix(name, subjects) || len(p.GoFiles) == 0 {
			continue
		}
		present[name] = true
		var sources []source
		for _, file := range p.files() {
			raw, err := os.ReadFile(file)
			noError(t, err)
			sources = append(sources, source{file, string(raw)})
		}
		for variable, complaint := range packageState(t, p.ImportPath, sources, exports) {
			if key := name + "." + variable; mayKeepState[key] != "" {
				needed[key] = true
			} else {
				t.Errorf("%s: %s", key, complaint)
			}
		}
	}
	for key := range mayKeepState {
		if name := key[:strings.LastIndex(key, ".")]; present[name] && !needed[key] {
			t.Errorf("%s needs no exception any more: drop it", key)
		}
	}
}

type source struct{ name, text string }

// packageState maps a package variable, or init, to its problem.
func packageState(t *testing.T, importPath string, sources []source,
	exports map[string]string) map[string]string {
	t.Helper()
	fset, found := token.NewFileSet(), make(map[string]string)
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no compiled types of %s", path)
		}
		return os.Open(exports[path])
	}
	info := &types.Info{Defs: make(map[*ast.Ident]types.Object),
		Uses: make(map[*ast.Ident]types.Object)}
	checked, files := typeCheck(t, fset, importPath, sources,
		importer.ForCompiler(fset, "gc", lookup), info)
	for _, file := range files {
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Name.Name == "init" && decl.Recv == nil {
					found["init"] = "func init hides work from whoever imports the package"
				}
			case *ast.GenDecl:
				if decl.Tok == token.VAR {
					declared(decl, info, found)
				}
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			assigned(node, checked, info, found)
			return true
		})
	}
	return found
}

func typeCheck(t *testing.T, fset *token.FileSet, importPath string, sources []source,
	from types.Importer, info *types.Info) (*types.Package, []*ast.File) {
	t.Helper()
	var files []*ast.File
	for _, s := range sources {
		file, err := parser.ParseFile(fset, s.name, s.text, 0)
		noError(t, err)
		files = append(files, file)
	}
	config := types.Config{Importer: from}
	checked, err := config.Check(importPath, fset, files, info)
	noError(t, err)
	return checked, files
}

func declared(decl *ast.GenDecl, info *types.Info, found map[string]string) {
	for _, spec := range decl.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			if name.Name == "_" {
				continue // an assertion for the compiler
			}
			typ := info.Defs[name].Type()
			if !harmless(typ) && mutable(typ) {
				found[name.Name] = fmt.Sprintf("package variable of type %s can be changed through",
					typ)
			}
		}
	}
}

// harmless types are concurrency-safe and stateless: constants by intent, or reusable memory.
func harmless(typ types.Type) bool {
	switch typ.String() {
	case "error", "*regexp.Regexp", "*encoding/base64.Encoding", "sync.Pool", "embed.FS":
		return true
	}
	return false
}

func mutable(typ types.Type) bool {
	if named, ok := types.Unalias(typ).(*types.Named); ok && named.Obj().Pkg() != nil {
		switch named.Obj().Pkg().Path() {
		case "sync", "sync/atomic":
			return true
		}
	}
	switch typ := typ.Underlying().(type) {
	case *types.Map, *types.Slice, *types.Pointer, *types.Chan:
		return true
	case *types.Array:
		return mutable(typ.Elem())
	}
	return false
}

// The function assigned reports assigned package variables of any type.
func assigned(node ast.Node, checked *types.Package, info *types.Info, found map[string]string) {
	var targets []ast.Expr
	switch node := node.(type) {
	case *ast.AssignStmt:
		targets = node.Lhs
	case *ast.IncDecStmt:
		targets = []ast.Expr{node.X}
	}
	for _, target := range targets {
		if name := rootOf(target); name != nil {
			if v, ok := info.Uses[name].(*types.Var); ok && v.Parent() == checked.Scope() {
				found[name.Name] = "package variable is assigned to"
			}
		}
	}
}

// rootOf returns the variable that an assignment to expr changes.
func rootOf(expr ast.Expr) *ast.Ident {
	for {
		switch e := expr.(type) {
		case *ast.Ident:
			return e
		case *ast.SelectorExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.StarExpr:
			expr = e.X
		default:
			return nil
		}
	}
}

func TestStateRuleBites(t *testing.T) {
	exports := make(map[string]string)
	for _, p := range list(t, []string{"-deps", "-export", "-json=ImportPath,Export"}, "errors",
		"io", "regexp", "sync") {
		exports[p.ImportPath] = p.Export
	}
	for _, test := range []struct {
		name, body string
		want       string // the variable; empty if valid
	}{
		{"sentinel", `import "errors"; var ErrX = errors.New("x")`, ""},
		{"regexp", `import "regexp"; var re = regexp.MustCompile("x")`, ""},
		{"pool", `import "sync"; var pool sync.Pool`, ""},
		{"assertion", `import "io"; var _ io.Reader = (io.Reader)(nil)`, ""},
		{"array of strings never set", `var names = [...]string{"a"}`, ""},
		{"local variables", `func f() { x := 1; x++; _ = x }`, ""},
		{"map", `var m = map[string]int{}`, "m"},
		{"slice", `var s = []string{"a"}`, "s"},
		{"pointer", `var p = new(int)`, "p"},
		{"array of pointers", `var a [2]*int`, "a"},
		{"once", `import "sync"; var once sync.Once`, "once"},
		{"counter", `var n int; func f() { n++ }`, "n"},
		{"array set by index", `var a [2]int; func f() { a[0] = 1 }`, "a"},
		{"field", `var v struct{ n int }; func f() { v.n = 1 }`, "v"},
		{"init", `func init() {}`, "init"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := packageState(t, "p", []source{{"p.go", "package p; " + test.body}}, exports)
			if test.want == "" && len(got) != 0 || test.want != "" &&
				(len(got) != 1 || got[test.want] == "") {
				t.Errorf("found %q, want %q", got, test.want)
			}
		})
	}
}
