package wiretest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/wiretest"
)

func TestEveryRevisionHasASchema(t *testing.T) {
	wiretest.Need(t)
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25",
		"2026-07-28"} {
		raw, ok := wiretest.SchemaOf(revision)
		if !ok || !json.Valid(raw) {
			t.Errorf("schema of %s: found %v, valid %v", revision, ok, json.Valid(raw))
		}
	}
	if _, ok := wiretest.SchemaOf("1999-01-01"); ok {
		t.Error("found a schema for a revision that was never published")
	}
}

func TestRootWalksPastNestedModules(t *testing.T) {
	root, ok := wiretest.Root()
	if !ok {
		t.Fatal("the module's root was not found")
	}
	nested := t.TempDir()
	other := []byte("module example.com/other\n")
	if err := os.WriteFile(filepath.Join(nested, "go.mod"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(nested)
	if got, ok := wiretest.Root(); ok {
		t.Errorf("outside the module Root() = %q, want none", got)
	}
	t.Chdir(filepath.Join(root, "internal"))
	if got, _ := wiretest.Root(); got != root {
		t.Errorf("Root() = %q, want %q", got, root)
	}
}
