// Release prepares a release of all modules of rondo at one version, and tries it before a tag
// exists. RELEASING in .github/CONTRIBUTING.md has the order.
//
//	go run ./internal/release modules        # the folders of the modules that are released
//	go run ./internal/release require v0.2.0 # have all go.mod files require this version of ours
//	go run ./internal/release proxy DIR      # write a module proxy of the last commit
//	go run ./internal/release outside        # install the root module from it, and run a server
//	go run ./internal/release outside -all   # install all modules, with the oldest and newest Go
//	go run ./internal/release sbom DIR       # write the bills of materials, and check licences
//	go run ./internal/release apidiff REF    # how the API changed since a tag or commit
//	go run ./internal/release tags           # the tags of the release
//
// The version is that of the first release in CHANGELOG.md, and what is released is the last
// commit: changes that are in none are left out.
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

// run runs one command of the list above.
func run(args []string) error {
	top, err := output(command(".", "git", "rev-parse", "--show-toplevel"))
	if err != nil {
		return err
	}
	r, err := readRelease(top)
	if err != nil {
		return err
	}
	switch words := strings.Join(args, " "); {
	case words == "modules":
		fmt.Println(strings.Join(r.released, "\n"))
		return nil
	case words == "tags":
		fmt.Println(strings.Join(r.tags(), "\n"))
		return nil
	case words == "outside", words == "outside -all":
		return r.inClone(func(clone *release, dir string) error {
			return clone.tryOutside(dir, words == "outside -all")
		})
	case len(args) == 2 && args[0] == "require":
		return r.requireVersion(args[1])
	case len(args) == 2 && args[0] == "proxy":
		return r.inClone(func(clone *release, _ string) error {
			return clone.writeProxy(args[1])
		})
	case len(args) == 2 && args[0] == "sbom":
		return r.inClone(func(clone *release, _ string) error {
			return clone.writeBills(args[1])
		})
	case len(args) == 2 && args[0] == "apidiff":
		return r.inClone(func(clone *release, dir string) error {
			return clone.compareAPI(dir, args[1])
		})
	}
	return fmt.Errorf("unknown command %q; the comment of the package has the list", args)
}

// command returns a command that runs in dir. What it says of errors goes to standard error.
func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	return cmd
}

// output runs a command and returns what it prints, without white space around it.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// inClone calls f with a clean clone of the last commit that has the tags of the release, and with
// a folder that exists until f returns.
func (r *release) inClone(f func(clone *release, dir string) error) error {
	dir, err := os.MkdirTemp("", "rondo-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	top := filepath.Join(dir, "clone")
	if _, err := output(command(dir, "git", "clone", "-q", r.top, top)); err != nil {
		return err
	}
	clone, err := readRelease(top)
	if err != nil {
		return err
	}
	for _, tag := range clone.tags() {
		if _, err := output(command(top, "git", "tag", "-f", tag)); err != nil {
			return err
		}
	}
	return f(clone, dir)
}
