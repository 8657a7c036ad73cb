package wiretest

// This file finds the published MCP schemas and examples, which are outside the project: the folder
// shared/spec next to its root has REVISION/schema.json and, for some revisions,
// REVISION/examples/TYPE/NAME.json. If the folder is missing, the functions return false.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// module is the first line of the root's go.mod, by which nested modules are skipped.
const module = "module github.com/rondo-mcp/rondo"

// Root returns the root module's directory above the working directory, or false without one.
func Root() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		mod, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
		if first, _, _ := bytes.Cut(mod, []byte("\n")); string(bytes.TrimSpace(first)) == module {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// Dir returns the folder of the published data, or false if there is no such folder.
func Dir() (string, bool) {
	root, ok := Root()
	if !ok {
		return "", false
	}
	dir := filepath.Join(filepath.Dir(root), "shared", "spec")
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

// SchemaOf returns the published JSON Schema of revision, or false if there is none.
func SchemaOf(revision string) ([]byte, bool) {
	dir, ok := Dir()
	if !ok {
		return nil, false
	}
	raw, err := os.ReadFile(filepath.Join(dir, revision, "schema.json"))
	return raw, err == nil
}

// An Example is a published message or part of one.
type Example struct {
	Type string // the schema definition that it illustrates
	Name string // file name without extension
	JSON []byte
}

// Examples lists a revision's examples by type and name. It returns false if there are none.
func Examples(revision string) ([]Example, bool) {
	dir, ok := Dir()
	if !ok {
		return nil, false
	}
	files, err := filepath.Glob(filepath.Join(dir, revision, "examples", "*", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, false
	}
	var examples []Example
	for _, file := range files { // sorted by Glob
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, false
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		examples = append(examples, Example{filepath.Base(filepath.Dir(file)), name, raw})
	}
	return examples, true
}

const missing = "the published MCP schemas are not here: put them at ../shared/spec, counted " +
	"from the project's root"

// Need skips t without the published data. If the variable CI is set, it fails t.
func Need(t testing.TB) {
	t.Helper()
	if _, ok := Dir(); ok {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing + ", to run this test")
}

// reportMissing is for tests that check less without the published data. It reports that on
// standard error once per test binary. If the variable CI is set, it fails t.
func reportMissing(t testing.TB) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Error(missing)
		return
	}
	report()
}

var report = sync.OnceFunc(func() {
	fmt.Fprintln(os.Stderr, "NOT CHECKED AGAINST THE SCHEMAS:", missing)
})
