package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestModFilesRequireTheRelease checks requirements, which users get, and that nothing is replaced.
func TestModFilesRequireTheRelease(t *testing.T) {
	r, err := readRelease(".")
	if err != nil {
		t.Fatal(err)
	}
	if r.folders[0] != "." || !slices.Contains(r.folders, "server/hosted/gosdk") {
		t.Fatalf("released are %q", r.folders)
	}
	files, err := execute(r.top, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	ours := func(path string) bool { return strings.HasPrefix(path+"/", rootModule+"/") }
	for _, file := range strings.Fields(files) {
		f := readModFile(t, filepath.Join(r.top, file))
		for _, required := range f.Require {
			if ours(required.Mod.Path) && required.Mod.Version != r.version {
				t.Errorf("%s requires %s, not %s", file, required.Mod, r.version)
			}
		}
		for _, replaced := range f.Replace {
			if !ours(replaced.Old.Path) {
				t.Errorf("%s replaces %s, which is not ours", file, replaced.Old.Path)
			}
		}
		if !notReleased.MatchString(file) && f.Go.Version != "1.26.0" {
			t.Errorf("%s wants Go %s", file, f.Go.Version)
		}
	}
}

func TestTagsBeginWithFolders(t *testing.T) {
	r := &release{version: "v0.1.0", folders: []string{".", "server/hosted/gosdk"}}
	if got := strings.Join(r.tags(), " "); got != "v0.1.0 server/hosted/gosdk/v0.1.0" {
		t.Errorf("tags %s", got)
	}
}

func TestLicencesThatNobodyAcceptedAreRefused(t *testing.T) {
	component := func(name string, licences ...string) string {
		var found []string
		for _, id := range licences {
			found = append(found, `{"license":{"id":"`+id+`"}}`)
		}
		return `{"components":[{"name":"` + name + `","version":"v1.0.0","evidence":{"licenses":[` +
			strings.Join(found, ",") + `]}}]}`
	}
	for _, test := range []struct{ name, bill, want string }{
		{"permissive", component("example.com/a", "MIT"), ""},
		{"ours", component(rootModule+"/server/hosted/gosdk", "CC-BY-4.0"), ""},
		{"name like ours", component(rootModule+"x", "GPL-3.0"), "has licence GPL-3.0"},
		{"copyleft", component("example.com/a", "AGPL-3.0"), "has licence AGPL-3.0"},
		{"none found", component("example.com/a"), "has licence unknown"},
		{"two", component("example.com/a", "MIT", "GPL-2.0"), "has licence unknown"},
		{"read by hand", component("github.com/modelcontextprotocol/go-sdk", "CC-BY-4.0"), ""},
		{"changed since", component("github.com/modelcontextprotocol/go-sdk", "SSPL-1.0"), "SSPL"},
		{"no JSON", "<bom/>", "invalid character"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := readLicences([]byte(test.bill))
			if (test.want == "") != (err == nil) ||
				err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
