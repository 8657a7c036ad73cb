package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"

	// These imports make go test compile most of the module, which go list -export then reuses.
	_ "github.com/rondo-mcp/rondo/client"
	_ "github.com/rondo-mcp/rondo/client/clienthttp"
	_ "github.com/rondo-mcp/rondo/elicitation"
	_ "github.com/rondo-mcp/rondo/server/middleware/prom"
	_ "github.com/rondo-mcp/rondo/server/middleware/sloglog"
	_ "github.com/rondo-mcp/rondo/server/middleware/zaplog"
	_ "github.com/rondo-mcp/rondo/server/serverhttp"
)

const module = "github.com/rondo-mcp/rondo"

// pkg is a package as listed by go list, without tests.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	Doc        string
	Export     string // file of compiled types, on request
	GoFiles    []string
	Imports    []string
	Deps       []string // all its direct and indirect imports
}

// rel returns the path inside the module, "." for its root, and whether it is in the module.
func rel(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func (p pkg) files() []string {
	var all []string
	for _, name := range p.GoFiles {
		all = append(all, filepath.Join(p.Dir, name))
	}
	return all
}

func root(t *testing.T) string {
	t.Helper()
	dir, ok := wiretest.Root()
	if !ok {
		t.Fatal("the module's root was not found")
	}
	return dir
}

// list runs go list with flags, in the workspace; without patterns it covers the module.
func list(t *testing.T, flags []string, patterns ...string) []pkg {
	t.Helper()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	cmd := exec.CommandContext(t.Context(), "go",
		slices.Concat([]string{"list"}, flags, patterns)...)
	cmd.Dir = root(t)
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=") // each module may be tested by itself
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list printed no JSON: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list named no packages")
	}
	return all
}

func listAllModules(t *testing.T) []pkg {
	t.Helper()
	var patterns []string
	for _, m := range list(t, []string{"-m", "-json=Path,Dir"}, "all") {
		if m.Dir != "" && strings.HasPrefix(m.Dir, root(t)) {
			patterns = append(patterns, filepath.ToSlash(m.Dir)+"/...")
		}
	}
	return list(t, []string{"-json=ImportPath,Name,Dir,Doc,GoFiles"}, patterns...)
}

// eachGoFile calls the function do with each Go file of all modules, relative to the root.
func eachGoFile(t *testing.T, do func(name string, src []byte, f *ast.File)) {
	t.Helper()
	for _, file := range written(t) {
		if !strings.HasSuffix(file, ".go") || strings.Contains(file, "/testdata/") {
			continue
		}
		src, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(file)))
		noError(t, err)
		f, err := parser.ParseFile(token.NewFileSet(), file, src,
			parser.ParseComments|parser.SkipObjectResolution)
		noError(t, err)
		do(file, src, f)
	}
}
