package archtest_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"strings"
	"testing"
)

// TestNoInternalTypesInSignatures refuses exported signatures with internal types: users could not
// make such a value, implement the interface or declare a variable for the result.
func TestNoInternalTypesInSignatures(t *testing.T) {
	packages := list(t, []string{"-deps", "-export", "-json=ImportPath,Name,Export"})
	exports := make(map[string]string)
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	checked := 0
	for _, p := range packages {
		name, ok := rel(p.ImportPath)
		if !ok || p.Name == "main" || strings.Contains("/"+name+"/", "/internal/") {
			continue
		}
		loaded, err := load.Import(p.ImportPath)
		noError(t, err)
		checked++
		for _, complaint := range internalInSignatures(loaded) {
			t.Errorf("%s: %s", name, complaint)
		}
	}
	if checked < 5 {
		t.Errorf("only %d packages were checked", checked)
	}
}

// internalInSignatures lists the exported names whose type mentions an internal type.
func internalInSignatures(p *types.Package) []string {
	var complaints []string
	check := func(name string, typ types.Type) {
		if found := internalType(typ); found != "" {
			complaints = append(complaints, fmt.Sprintf("%s names %s", name, found))
		}
	}
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		declared, ok := object.(*types.TypeName)
		if !ok {
			check(name, object.Type())
			continue
		}
		if declared.IsAlias() {
			check(name, types.Unalias(declared.Type()))
			continue
		}
		named := declared.Type().(*types.Named)
		check(name, named.Underlying())
		for method := range named.Methods() {
			if method.Exported() {
				check(name+"."+method.Name(), method.Type())
			}
		}
	}
	return complaints
}

// internalType returns a caller-visible internal type in typ, if any. It does not look into named
// types, which are checked where declared, nor at unexported fields and methods.
func internalType(typ types.Type) string {
	switch typ := typ.(type) {
	case *types.Alias:
		return internalType(types.Unalias(typ))
	case *types.Named:
		if p := typ.Obj().Pkg(); p != nil && isInternal(p.Path()) {
			return typ.String()
		}
		for argument := range typ.TypeArgs().Types() {
			if found := internalType(argument); found != "" {
				return found
			}
		}
	case *types.Map:
		return internalType(typ.Key()) + internalType(typ.Elem())
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		return internalType(typ.Elem())
	case *types.Signature:
		return internalType(typ.Params()) + internalType(typ.Results())
	case *types.Tuple:
		for v := range typ.Variables() {
			if found := internalType(v.Type()); found != "" {
				return found
			}
		}
	case *types.Struct:
		for field := range typ.Fields() {
			if found := internalType(field.Type()); field.Exported() && found != "" {
				return found
			}
		}
	case *types.Interface:
		for method := range typ.ExplicitMethods() {
			if found := internalType(method.Type()); method.Exported() && found != "" {
				return found
			}
		}
	}
	return ""
}

func isInternal(path string) bool { return strings.Contains("/"+path+"/", "/internal/") }

func TestSignatureRuleBites(t *testing.T) {
	check := func(path, text string, imported *types.Package) *types.Package {
		checked, _ := typeCheck(t, token.NewFileSet(), path, []source{{path + ".go", text}},
			onePackage{imported}, nil)
		return checked
	}
	hidden := check("m/internal/form", `package form; type Options struct{}`, nil)
	for _, test := range []struct {
		name, body string
		want       int
	}{
		{"parameter", `func F(*form.Options) {}`, 1},
		{"result in a slice", `func F() []form.Options { return nil }`, 1},
		{"type of a function", `type F func(*form.Options)`, 1},
		{"method", `type T struct{}; func (T) M(form.Options) {}`, 1},
		{"exported field", `type T struct{ O form.Options }`, 1},
		{"alias", `type T = form.Options`, 1},
		{"variable", `var V form.Options`, 1},
		{"method of an interface", `type I interface{ M(form.Options) }`, 1},
		{"unexported field", `type T struct{ o form.Options }`, 0},
		{"unexported method of an interface", `type I interface{ m(form.Options) }`, 0},
		{"unexported function", `func f(form.Options) {}`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := check("m/p",
				`package p; import "m/internal/form"; var _ form.Options; `+test.body, hidden)
			if got := internalInSignatures(p); len(got) != test.want {
				t.Errorf("found %q, want %d", got, test.want)
			}
		})
	}
}

type onePackage struct{ p *types.Package }

func (o onePackage) Import(string) (*types.Package, error) { return o.p, nil }
