package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const rootModule = "github.com/rondo-mcp/rondo"

// notReleased are the folders whose modules are part of the checkout alone. All others are
// released, each with the same version.
var notReleased = regexp.MustCompile(`^(internal|examples)/`)

// newestRelease is the heading of a release in the changelog.
var newestRelease = regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\]`)

// release is what is released.
type release struct {
	top      string   // of the checkout
	version  string   // such as v0.1.0
	released []string // folders of modules, relative to top, "." first
	others   []string // those of modules that are not released
}

// readRelease finds the modules and the version.
func readRelease(top string) (*release, error) {
	r := &release{top: top}
	files, err := output(command(top, "git", "ls-files", "go.mod", "*/go.mod"))
	if err != nil {
		return nil, err
	}
	for _, file := range strings.Fields(files) {
		if folder := path.Dir(file); notReleased.MatchString(folder + "/") {
			r.others = append(r.others, folder)
		} else {
			r.released = append(r.released, folder)
		}
	}
	slices.Sort(r.released)
	changes, err := os.ReadFile(filepath.Join(top, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	heading := newestRelease.FindSubmatch(changes)
	if heading == nil || !slices.Contains(r.released, ".") {
		return nil, errors.New("CHANGELOG.md has no release, or there is no root module")
	}
	r.version = "v" + string(heading[1])
	return r, nil
}

// modulePath returns the path of the module in a folder.
func modulePath(folder string) string { return path.Join(rootModule, folder) }

// ours reports whether a module is one of rondo.
func ours(modulePath string) bool {
	return modulePath == rootModule || strings.HasPrefix(modulePath, rootModule+"/")
}

// tags returns the tags of the release. That of a module in a folder begins with the folder.
func (r *release) tags() (tags []string) {
	for _, folder := range r.released {
		tags = append(tags, path.Join(folder, r.version))
	}
	return tags
}

// requireVersion has each go.mod require one version of the modules of rondo.
func (r *release) requireVersion(version string) error {
	if !semver.IsValid(version) {
		return fmt.Errorf("%q is no version, such as v0.2.0", version)
	}
	for _, folder := range slices.Concat(r.released, r.others) {
		name := filepath.Join(r.top, folder, "go.mod")
		f, err := readModFile(name)
		if err != nil {
			return err
		}
		for _, required := range f.Require {
			if ours(required.Mod.Path) {
				if err := f.AddRequire(required.Mod.Path, version); err != nil {
					return err
				}
			}
		}
		text, err := f.Format()
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

func readModFile(name string) (*modfile.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// checkModFile refuses the go.mod of a released module that would not mean to users what it means
// here: they get the versions that it requires, and its replace lines count for nobody else.
func (r *release) checkModFile(name string, text []byte) error {
	f, err := modfile.Parse(name, text, nil)
	if err != nil {
		return err
	}
	for _, required := range f.Require {
		if mod := required.Mod; ours(mod.Path) && mod.Version != r.version {
			return fmt.Errorf("%s requires %s, not %s: run the command require", name, mod, r.version)
		}
	}
	for _, replaced := range f.Replace {
		if !ours(replaced.Old.Path) {
			return fmt.Errorf("%s replaces %s, which users would not", name, replaced.Old.Path)
		}
	}
	return nil
}
