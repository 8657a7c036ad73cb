package archtest_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exportedDir has the exported names of each package that users import.
const exportedDir = "internal/release/exported"

// TestHouseExportsWhatIsListed compares the exported names of all modules with the checked-in
// lists, so that no change goes unnoticed. Run it with -update after a change.
func TestHouseExportsWhatIsListed(t *testing.T) {
	dir := filepath.Join(root(t), filepath.FromSlash(exportedDir))
	stale := make(map[string]bool)
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	noError(t, err)
	for _, name := range names {
		stale[name] = true
	}
	update := flag.Lookup("update").Value.String() == "true"
	for _, p := range publicPackages(t) {
		want := exportedNames(t, p)
		name, _ := rel(p.ImportPath)
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", ".")+".txt")
		if want == "" {
			continue // documentation only
		}
		delete(stale, file)
		if update {
			noError(t, os.WriteFile(file, []byte(want), 0o666))
			continue
		}
		got, err := os.ReadFile(file)
		if err != nil || string(got) != want {
			t.Errorf("%s exports other names than %s has: run this test with -update, and say in "+
				"CHANGELOG.md what users have to change%s", name, filepath.Base(file),
				firstDifference(string(got), want))
		}
	}
	for file := range stale {
		if !update {
			t.Errorf("%s is of no package: run this test with -update", filepath.Base(file))
		} else {
			noError(t, os.Remove(file))
		}
	}
}

// publicPackages returns the packages of all modules that users import.
func publicPackages(t *testing.T) (public []pkg) {
	t.Helper()
	for _, p := range listAllModules(t) {
		name, ok := rel(p.ImportPath)
		if ok && p.Name != "main" && !isInternal(name) && !strings.HasPrefix(name, "examples/") {
			public = append(public, p)
		}
	}
	return public
}

// exportedNames returns a sorted line for each exported name of a package, with its type.
func exportedNames(t *testing.T, p pkg) string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.files() {
		file, err := parser.ParseFile(fset, name, nil, 0)
		noError(t, err)
		files = append(files, file)
	}
	d, err := doc.NewFromFiles(fset, files, p.ImportPath)
	noError(t, err)
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " "))
	}
	text := func(node any) string { return printNode(t, fset, node) }
	values := func(groups []*doc.Value) {
		for _, group := range groups {
			for _, name := range group.Names {
				if ast.IsExported(name) {
					add("%s %s", group.Decl.Tok, name)
				}
			}
		}
	}
	funcs := func(all []*doc.Func) {
		for _, f := range all {
			f.Decl.Body, f.Decl.Doc = nil, nil
			add("%s", text(f.Decl))
		}
	}
	values(d.Consts)
	values(d.Vars)
	funcs(d.Funcs)
	for _, typ := range d.Types {
		spec := typ.Decl.Specs[0].(*ast.TypeSpec)
		fields := membersOf(spec.Type)
		if fields == nil {
			add("type %s", text(spec))
		} else {
			add("type %s %s", typ.Name, strings.Fields(text(spec.Type))[0])
		}
		for _, field := range fields {
			for _, name := range field.Names {
				if name.IsExported() {
					add("type %s, %s %s", typ.Name, name, text(field.Type))
				}
			}
			if len(field.Names) == 0 {
				add("type %s, embedded %s", typ.Name, text(field.Type))
			}
		}
		values(typ.Consts)
		values(typ.Vars)
		funcs(typ.Funcs)
		funcs(typ.Methods)
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

func membersOf(typ ast.Expr) []*ast.Field {
	switch typ := typ.(type) {
	case *ast.StructType:
		return append([]*ast.Field{}, typ.Fields.List...)
	case *ast.InterfaceType:
		return append([]*ast.Field{}, typ.Methods.List...)
	}
	return nil
}

func printNode(t *testing.T, fset *token.FileSet, node any) string {
	t.Helper()
	var text bytes.Buffer
	noError(t, printer.Fprint(&text, fset, node))
	return text.String()
}

func firstDifference(got, want string) string {
	before, after := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i, line := range after {
		if i >= len(before) || before[i] != line {
			return fmt.Sprintf("\nnow there is %q", line)
		}
	}
	return ""
}
