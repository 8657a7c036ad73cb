package archtest_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func TestEveryPackageAndExportIsDocumented(t *testing.T) {
	for _, p := range list(t, []string{"-json=ImportPath,Name,Dir,GoFiles"}) {
		if len(p.GoFiles) == 0 {
			continue // tests alone
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.files() {
			file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		name, _ := rel(p.ImportPath)
		public := p.Name != "main" && !strings.HasPrefix(name, "internal/")
		for _, missing := range undocumented(t, fset, files, p.ImportPath, public) {
			t.Errorf("%s: %s", name, missing)
		}
	}
}

// undocumented names what has no comment: the package, and with exports everything exported.
func undocumented(t *testing.T, fset *token.FileSet, files []*ast.File, importPath string,
	exports bool) []string {
	t.Helper()
	d, err := doc.NewFromFiles(fset, files, importPath)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	if strings.TrimSpace(d.Doc) == "" {
		missing = append(missing, "the package has no comment")
	}
	if !exports {
		return missing
	}
	need := func(text string, node ast.Node, what, name string) {
		if strings.TrimSpace(text) == "" {
			missing = append(missing, fmt.Sprintf("%s %s has no comment (%s)", what, name,
				fset.Position(node.Pos())))
		}
	}
	values := func(groups []*doc.Value) {
		for _, group := range groups {
			for _, spec := range group.Decl.Specs {
				spec := spec.(*ast.ValueSpec)
				for _, name := range spec.Names {
					if name.IsExported() {
						need(group.Doc+spec.Doc.Text()+spec.Comment.Text(), name, "value",
							name.Name)
					}
				}
			}
		}
	}
	funcs := func(all []*doc.Func, of string) {
		for _, f := range all {
			need(f.Doc, f.Decl, "func", of+f.Name)
		}
	}
	values(d.Consts)
	values(d.Vars)
	funcs(d.Funcs, "")
	for _, typ := range d.Types {
		need(typ.Doc, typ.Decl, "type", typ.Name)
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs, "")
		funcs(typ.Methods, typ.Name+".")
	}
	return missing
}

func TestDocumentationRuleBites(t *testing.T) {
	for source, want := range map[string]int{
		"// Package p is documented.\npackage p\n// F does.\nfunc F() {}\n// T is.\ntype T struct{}\n// M does.\nfunc (T) M() {}": 0,
		"// Package p is.\npackage p\n// The answers.\nconst (\n\tA = iota\n\tB\n)":                                               0,
		"// Package p is.\npackage p\nconst (\n\tA = 1 // first\n\tB = 2\n)":                                                      1,
		"// Package p is.\npackage p\nfunc F() {}\ntype T struct{}\nfunc (T) M() {}\nvar V int":                                   4,
		"// Package p is.\npackage p\nfunc f() {}\ntype t struct{}":                                                               0,
		"package p": 1,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := undocumented(t, fset, []*ast.File{file}, "p", true); len(got) != want {
			t.Errorf("%q: missing %q, want %d", source, got, want)
		}
	}
}
