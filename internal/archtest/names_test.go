package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	// The regexp qualified matches a name with its package, named a type with a member, or a link.
	qualified = regexp.MustCompile(`(?:^|[^\w./-])\*?([a-z]\w*)((?:\.[A-Z]\w*)+)`)
	named     = regexp.MustCompile(`(?:^|[^\w.)\]"-])(?:\[\*?([A-Z]\w*(?:\.[A-Z]\w*)*)\]` +
		`|([A-Z]\w*(?:\.[A-Z]\w*)+)\b)`)
	linkedType = regexp.MustCompile(`\]\.([A-Z]\w*)`) // as in [Options].Limits
)

// foreignNames are names in other modules' packages that are named like ours.
var foreignNames = map[string]bool{ // all from mcp-go
	"server.NewInputRequestBuilder": true, "server.PromptCompletionProvider": true,
	"server.SessionWithElicitation": true, "server.SessionWithRoots": true,
	"server.SessionWithSampling": true, "server.WithSessionIdleTTL": true,
	"server.WithStateLess": true,
}

// A declaredName has its type, if known, and its members, if it is a type itself.
type declaredName struct {
	typ     string // "package.Type" of a variable, field or defined type
	closed  bool   // all members are known
	members map[string]*declaredName
	embeds  []string
}

// A nameIndex has the declared names, by "package.Name".
type nameIndex map[string]*declaredName

// TestNamesInCommentsExist checks names of this module in comments and pages against the code.
func TestNamesInCommentsExist(t *testing.T) {
	index, packages := make(nameIndex), make(map[string]bool)
	var files []*ast.File
	var names []string
	eachGoFile(t, func(file string, _ []byte, f *ast.File) {
		packages[packageOf(f)] = packageOf(f) != "main"
		index.add(packageOf(f), f)
		files, names = append(files, f), append(names, file)
	})
	checked, needed := 0, make(map[string]bool)
	check := func(where, pkg, text string, foreign map[string]bool) {
		for _, name := range index.namesIn(pkg, text, packages) {
			if of, _, _ := strings.Cut(name, "."); foreign[of] {
				continue
			}
			checked++
			if needed[name] = true; !foreignNames[name] && !index.has(name) {
				t.Errorf("%s names %s, which does not exist", where, name)
			}
		}
	}
	for i, f := range files {
		foreign := make(map[string]bool)
		for _, spec := range f.Imports {
			importPath, _ := strconv.Unquote(spec.Path.Value)
			if _, ours := rel(importPath); !ours && spec.Name == nil {
				foreign[path.Base(importPath)] = true
			} else if !ours {
				foreign[spec.Name.Name] = true
			}
		}
		for _, group := range f.Comments {
			check(names[i], packageOf(f), group.Text(), foreign)
		}
	}
	for _, file := range written(t) {
		if strings.HasSuffix(file, ".md") && file != "CHANGELOG.md" && // which has old names
			!strings.Contains(file, "/testdata/") {
			check(file, "", goBlock.ReplaceAllString(readPage(t, file), ""), nil)
		}
	}
	for name := range foreignNames {
		if !needed[name] {
			t.Errorf("nothing names %s any more: drop the exception", name)
		}
	}
	if len(packages) < 50 || len(index) < 3000 || checked < 1500 {
		t.Errorf("%d packages, %d names, %d of them read", len(packages), len(index), checked)
	}
}

func packageOf(f *ast.File) string { return strings.TrimSuffix(f.Name.Name, "_test") }

// namesIn returns the qualified names of our packages in a text.
func (index nameIndex) namesIn(pkg, text string, packages map[string]bool) (names []string) {
	text = linkedType.ReplaceAllString(text, ".$1")
	for _, m := range qualified.FindAllStringSubmatch(text, -1) {
		if packages[m[1]] {
			names = append(names, m[1]+m[2])
		}
	}
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		first, _, _ := strings.Cut(m[2], ".") // may be a field of the struct that the text is about
		if packages[pkg] && (m[1] != "" || index[pkg+"."+first] != nil) {
			names = append(names, pkg+"."+m[1]+m[2])
		}
	}
	return names
}

func (index nameIndex) add(pkg string, f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				index[pkg+"."+d.Name.Name] = &declaredName{closed: true}
			} else {
				index.typeOf(pkg + "." + receiverType(d.Recv.List[0].Type)).
					members[d.Name.Name] = &declaredName{closed: true}
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						index[pkg+"."+name.Name] = &declaredName{typ: typeName(pkg, s.Type)}
					}
				case *ast.TypeSpec:
					n := index.typeOf(pkg + "." + s.Name.Name)
					n.closed, n.typ = true, typeName(pkg, s.Type)
					for _, m := range membersOf(s.Type) {
						typ := typeName(pkg, m.Type)
						if len(m.Names) == 0 {
							n.embeds = append(n.embeds, typ)
							n.members[typ[strings.LastIndex(typ, ".")+1:]] = &declaredName{typ: typ}
						}
						for _, name := range m.Names {
							n.members[name.Name] = &declaredName{typ: typ}
						}
					}
				}
			}
		}
	}
}

// typeOf returns a type, possibly before its declaration is read.
func (index nameIndex) typeOf(name string) *declaredName {
	if n := index[name]; n == nil || n.members == nil {
		index[name] = &declaredName{members: make(map[string]*declaredName)}
	}
	return index[name]
}

// receiverType returns a receiver's type name, without pointer and type parameters.
func receiverType(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiverType(e.X)
	case *ast.IndexExpr:
		return receiverType(e.X)
	case *ast.IndexListExpr:
		return receiverType(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// typeName returns a type's name with its package, or "" for types without a name.
func typeName(pkg string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(pkg, e.X)
	case *ast.IndexExpr:
		return typeName(pkg, e.X)
	case *ast.Ident:
		return pkg + "." + e.Name
	case *ast.SelectorExpr:
		return e.X.(*ast.Ident).Name + "." + e.Sel.Name
	}
	return ""
}

// The method has reports whether a name exists. Members of unknown types count as existing.
func (index nameIndex) has(name string) bool {
	parts := strings.Split(name, ".")
	n := index[parts[0]+"."+parts[1]]
	if n == nil {
		return false
	}
	for _, part := range parts[2:] {
		next, known := index.member(n, part, 0)
		if !known {
			return true
		}
		if n = next; n == nil {
			return false
		}
	}
	return true
}

// member returns a member of a type, or of the type of a field, and whether its members are known.
func (index nameIndex) member(n *declaredName, name string, depth int) (*declaredName, bool) {
	if m := n.members[name]; m != nil || depth > 5 {
		return m, true
	}
	for _, typ := range append(n.embeds, n.typ) {
		of := index[typ]
		if of == nil && typ != "" {
			return nil, false // of a foreign package
		} else if of != nil {
			if m, known := index.member(of, name, depth+1); m != nil || !known {
				return m, known
			}
		}
	}
	return nil, n.closed || n.typ != ""
}

func TestNamesRuleBites(t *testing.T) {
	const source = `package p
type T struct { F q.U; G *V; *E; H http.Header }
func (t *T) M() {}
type V struct { X int }
type E struct { Y int }
type I interface { N() }
func F() {}
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	noError(t, err)
	index := make(nameIndex)
	index.add("p", f)
	for text, missing := range map[string]int{
		"p.T.F, p.T.G.X, p.T.Y, p.T.E.Y, p.T.M, p.I.N, p.F, p.V and p.T.H.Get": 0,
		"[T], [*T.M], [p.T.F], T.G and V.X":                                    0,
		"http.Server.Handler, Server.X, a.b/p.Z and x.p.Z":                     0,
		"p.Z, p.T.Z, p.T.G.Z, p.T.M.Z, p.F.Z, p.I.Z":                           6,
		"[Z], [*T.Z], [p.Z], T.Z, `p.Z`, \tp.Z 5 s, [p.T].Z":                   7,
	} {
		var got []string
		for _, name := range index.namesIn("p", text, map[string]bool{"p": true}) {
			if !index.has(name) {
				got = append(got, name)
			}
		}
		if len(got) != missing {
			t.Errorf("%q: missing are %q, want %d", text, got, missing)
		}
	}
}
