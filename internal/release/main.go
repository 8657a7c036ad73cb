// Release prepares a release of all modules of rondo at one version, before a tag exists. The
// checklist is in .github/CONTRIBUTING.md.
//
//	go run ./internal/release modules     # the folders of the modules that are released
//	go run ./internal/release tags        # the tags of the release
//	go run ./internal/release proxy DIR   # a module proxy with the release, for file URLs
//	go run ./internal/release sbom DIR    # bills of materials, and a check of licences
//	go run ./internal/release apidiff REF # how the API changed since a tag or commit
//
// The version is the newest of CHANGELOG.md. The last three commands work in a clean clone: only
// commits count. The tests install the modules from outside.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	r, err := readRelease(".")
	if err != nil {
		return err
	}
	switch words := strings.Join(args, " "); {
	case words == "modules":
		fmt.Println(strings.Join(r.folders, "\n"))
		return nil
	case words == "tags":
		fmt.Println(strings.Join(r.tags(), "\n"))
		return nil
	case len(args) != 2:
	case args[0] == "proxy":
		return r.inClone(func(clone *release, _ string) error { return clone.writeProxy(args[1]) })
	case args[0] == "sbom":
		return r.inClone(func(clone *release, _ string) error { return clone.writeBills(args[1]) })
	case args[0] == "apidiff":
		return r.inClone(func(clone *release, dir string) error {
			return clone.compareAPI(dir, args[1])
		})
	}
	return fmt.Errorf("unknown command %q; the comment of the package has the list", args)
}

// execute runs a program in a folder, without the Go workspace, and returns its output.
func execute(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSpace(string(out)), err
}

// inClone calls f with a clean, tagged clone of the last commit, and with a temporary folder.
func (r *release) inClone(f func(clone *release, dir string) error) error {
	dir, err := os.MkdirTemp("", "rondo-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	top := filepath.Join(dir, "clone")
	if _, err := execute(dir, "git", "clone", "-q", r.top, top); err != nil {
		return err
	}
	clone, err := readRelease(top)
	if err != nil {
		return err
	}
	for _, tag := range clone.tags() {
		if _, err := execute(top, "git", "tag", "-f", tag); err != nil {
			return err
		}
	}
	return f(clone, dir)
}
