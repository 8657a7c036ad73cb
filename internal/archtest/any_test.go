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
	"slices"
	"testing"
)

// mayTakeAny are the exported names of the core whose signatures have the type any, and why.
var mayTakeAny = map[string]string{
	"client.Accept":                         "any Go value is encoded as JSON content",
	"client.Client.CallTool":                "any Go value is encoded as JSON arguments",
	"client.PanicError.Value":               "the value of a panic",
	"protocol.Error.WithData":               "any Go value is encoded as JSON",
	"protocol.Errorf":                       "the arguments of a format",
	"protocol.Meta.With":                    "any Go value is encoded as JSON",
	"roundtrip.WithState":                   "any Go value is encoded as JSON",
	"roundtrip/event.HandlerPanicked.Value": "the value of a panic",
	"server.ScopeError.As":                  "errors.As has it",
	"server/bearer.Token.Claim":             "any Go value can be decoded from JSON",
	"server.Call.Log":                       "any Go value is encoded as JSON",
	"server.Structured":                     "any Go value is encoded as JSON content",
}

// anyCore are the packages that the rule is for.
var anyCore = []string{"protocol", "roundtrip", "roundtrip/event", "roundtrip/keys",
	"roundtrip/store", "server", "server/serverhttp", "server/bearer", "server/middleware",
	"client", "client/clienthttp", "elicitation"}

// TestNoAnyInSignatures refuses exported parameters, results and fields of type any: a reader
// cannot see what goes in, and the compiler does not object to what does not belong there.
func TestNoAnyInSignatures(t *testing.T) {
	packages := list(t, []string{"-deps", "-export", "-json=ImportPath,Name,Export"})
	exports := make(map[string]string)
	for _, p := range packages {
		exports[p.ImportPath] = p.Export
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc",
		func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	needed := make(map[string]bool)
	for _, name := range anyCore {
		loaded, err := load.Import(module + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range anyInSignatures(loaded) {
			key := name + "." + found
			needed[key] = true
			if mayTakeAny[key] == "" {
				t.Errorf("%s has the type any: give it one that says what it is, or a reason", key)
			}
		}
	}
	for key := range mayTakeAny {
		if !needed[key] {
			t.Errorf("%s needs no exception any more: drop it", key)
		}
	}
}

// anyInSignatures lists the exported functions, methods, variables, types and fields of a package
// whose type has an any that a caller can see.
func anyInSignatures(p *types.Package) (found []string) {
	check := func(name string, typ types.Type) {
		if hasAny(typ) {
			found = append(found, name)
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
		named, ok := types.Unalias(declared.Type()).(*types.Named)
		if !ok || declared.IsAlias() {
			check(name, types.Unalias(declared.Type()))
			continue
		}
		switch underlying := named.Underlying().(type) {
		case *types.Struct:
			for field := range underlying.Fields() {
				if field.Exported() {
					check(name+"."+field.Name(), field.Type())
				}
			}
		case *types.Interface:
			for method := range underlying.ExplicitMethods() {
				if method.Exported() {
					check(name+"."+method.Name(), method.Type())
				}
			}
		default:
			check(name, underlying)
		}
		for method := range named.Methods() {
			if method.Exported() {
				check(name+"."+method.Name(), method.Type())
			}
		}
	}
	slices.Sort(found)
	return found
}

// hasAny reports whether typ is or contains the empty interface. It does not look into named
// types, which are checked where they are declared, nor at the constraints of type parameters.
func hasAny(typ types.Type) bool {
	switch typ := types.Unalias(typ).(type) {
	case *types.Named:
		return slices.ContainsFunc(slices.Collect(typ.TypeArgs().Types()), hasAny)
	case *types.Map:
		return hasAny(typ.Key()) || hasAny(typ.Elem())
	case *types.TypeParam:
		return false
	case *types.Interface:
		return typ.Empty()
	case interface{ Elem() types.Type }: // pointer, slice, array, channel
		return hasAny(typ.Elem())
	case *types.Signature:
		return hasAny(typ.Params()) || hasAny(typ.Results())
	case *types.Tuple:
		for v := range typ.Variables() {
			if hasAny(v.Type()) {
				return true
			}
		}
	case *types.Struct:
		for field := range typ.Fields() {
			if field.Exported() && hasAny(field.Type()) {
				return true
			}
		}
	}
	return false
}

func TestAnyRuleBites(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"parameter", `func F(any) {}`, "[F]"},
		{"other spelling", `func F(interface{}) {}`, "[F]"},
		{"result in a slice", `func F() []any { return nil }`, "[F]"},
		{"function in a parameter", `func F(func(any)) {}`, "[F]"},
		{"method", `type T struct{}; func (*T) M(map[string]any) {}`, "[T.M]"},
		{"method of an interface", `type I interface{ M(any) }`, "[I.M]"},
		{"field", `type T struct{ F any }`, "[T.F]"},
		{"field of an unnamed struct", `type T struct{ F struct{ G any } }`, "[T.F]"},
		{"variable", `var V any`, "[V]"},
		{"alias", `type T = map[string]any`, "[T]"},
		{"type argument", `type G[T any] struct{}; func F(G[any]) {}`, "[F]"},
		{"constraint", `func F[T any](T) {}`, "[]"},
		{"unexported field", `type T struct{ f any }`, "[]"},
		{"unexported method", `type T struct{}; func (T) m(any) {}`, "[]"},
		{"interface with methods", `func F(error) {}`, "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "p.go", "package p; "+test.body, 0)
			if err != nil {
				t.Fatal(err)
			}
			p, err := (&types.Config{}).Check("m/p", fset, []*ast.File{file}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(anyInSignatures(p)); got != test.want {
				t.Errorf("found %s, want %s", got, test.want)
			}
		})
	}
}
