package wiretest

// This file finds the published MCP schemas and example messages. They are beside the project,
// never in it: the folder shared/spec next to its root holds REVISION/schema.json and, for some
// revisions, REVISION/examples/TYPE/NAME.json. Without the folder the functions report false.

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// module is the first line of the root go.mod; those of nested modules are walked past.
const module = "module github.com/rondo-mcp/rondo"

// Revisions lists the published protocol revisions, oldest first.
func Revisions() []string {
	return []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
}

// Root is the directory of the root module that contains the working directory.
// It reports false outside the module.
func Root() (string, bool) {
	dir, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			first, _, _ := bytes.Cut(mod, []byte("\n"))
			if string(bytes.TrimSpace(first)) == module {
				return dir, true
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// Dir is the folder that holds the published data. It reports false when there is none.
func Dir() (string, bool) {
	root, ok := Root()
	if !ok {
		return "", false
	}
	dir := filepath.Join(filepath.Dir(root), "shared", "spec")
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

// SchemaOf is the JSON Schema published for revision. It reports false when the file is not there.
func SchemaOf(revision string) ([]byte, bool) {
	dir, ok := Dir()
	if !ok {
		return nil, false
	}
	raw, err := os.ReadFile(filepath.Join(dir, revision, "schema.json"))
	return raw, err == nil
}

// An Example is one published message or part of a message.
type Example struct {
	Type string // the schema definition that it illustrates
	Name string // the file's name without its ending
	JSON []byte
}

// Examples lists the examples of a revision by type and name, false if there are none.
func Examples(revision string) ([]Example, bool) {
	dir, ok := Dir()
	if !ok {
		return nil, false
	}
	files, err := filepath.Glob(filepath.Join(dir, revision, "examples", "*", "*.json"))
	if err != nil || len(files) == 0 {
		return nil, false
	}
	examples := make([]Example, 0, len(files))
	for _, file := range files { // Glob sorts
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, false
		}
		name := filepath.Base(file)
		examples = append(examples, Example{
			Type: filepath.Base(filepath.Dir(file)),
			Name: name[:len(name)-len(".json")],
			JSON: raw,
		})
	}
	return examples, true
}

// missing tells what to do where the published data is not at hand.
const missing = "the published MCP schemas are not here: put them at ../shared/spec, counted " +
	"from the project's root"

// Need skips t where the published data is missing. Where the variable CI is set it fails t: there
// nobody would notice that nothing was checked.
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

// reportMissing is for tests that check less without the published data. It says so once for each
// test binary, on standard error, and fails t where the variable CI is set.
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
