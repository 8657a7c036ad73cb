package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

var all = flag.Bool("all", false, "install all modules, with the oldest Go and with the newest")

// The program that outside modules build, test with the kit and run, its input and last output.
const (
	program = "examples/first"
	typed   = `{"people":3}` + "\n" + `{"place":"window"}` + "\n"
	printed = "a table for 3, window"
)

// TestOutsideModuleInstalls installs the last commit from a proxy on disk, as README says, in
// modules outside the checkout. Each tests a server of its own, and runs it.
func TestOutsideModuleInstalls(t *testing.T) {
	r, err := readRelease(".")
	if err != nil {
		t.Fatal(err)
	}
	err = r.inClone(func(clone *release, dir string) error {
		proxy := filepath.Join(dir, "proxy")
		if err := clone.writeProxy(proxy); err != nil {
			return err
		}
		folders, toolchains := clone.folders[:1], []string{"local"}
		if *all {
			folders, toolchains = clone.folders, oldestAndNewest(t, clone.top)
		}
		for _, toolchain := range toolchains {
			o := newOutside(t, dir, proxy, toolchain)
			for _, folder := range folders {
				t.Run(o.goVersion+"/"+modulePath(folder), func(t *testing.T) {
					o.try(t, clone.top, folder)
				})
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// oldestAndNewest returns the toolchains of the oldest allowed Go and of the newest.
func oldestAndNewest(t *testing.T, top string) []string {
	newest, err := execute(top, "go", "list", "-m", "-f", "{{.Version}}", "go@latest")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"go" + readModFile(t, filepath.Join(top, "go.mod")).Go.Version, "go" + newest}
}

func readModFile(t *testing.T, name string) *modfile.File {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := modfile.Parse(name, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type outside struct {
	dir       string // for modules
	goCommand string
	goVersion string
	env       []string
}

// newOutside sets a toolchain up for the proxy, with its own cache for the unreleased version.
func newOutside(t *testing.T, dir, proxy, toolchain string) *outside {
	t.Helper()
	told, err := execute(dir, "env", "GOTOOLCHAIN="+toolchain, "go", "env", "GOROOT", "GOVERSION",
		"GOPROXY", "GOMODCACHE")
	env := strings.Split(told, "\n")
	if err != nil || len(env) != 4 {
		t.Fatalf("go env of %s: %v, %q", toolchain, err, told)
	}
	o := &outside{dir: filepath.Join(dir, toolchain), goVersion: env[1],
		goCommand: filepath.Join(env[0], "bin", "go")}
	// Not direct: a module that no proxy has would be looked for in repositories.
	proxies := strings.Join([]string{"file://" + filepath.ToSlash(proxy),
		"file://" + filepath.ToSlash(filepath.Join(env[3], "cache", "download")),
		strings.TrimSuffix(env[2], ",direct")}, ",")
	o.env = append(os.Environ(), "GOWORK=off", "GOTOOLCHAIN=local", "GOPROXY="+proxies,
		"GOMODCACHE="+filepath.Join(dir, "modules"), "GOFLAGS=-modcacherw -trimpath",
		"GONOPROXY=none", "GONOSUMDB="+rootModule+","+rootModule+"/*")
	return o
}

func (o *outside) run(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), o.goCommand, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, o.env, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// try installs the module in a folder, runs the tests of server and examples, and the server.
func (o *outside) try(t *testing.T, top, folder string) {
	dir := filepath.Join(o.dir, filepath.FromSlash(folder), "outside")
	checkReadme(t, top, folder)
	copyFiles(t, filepath.Join(top, program, "*.go"), dir)
	copyFiles(t, filepath.Join(top, program, "*.sh"), dir)
	if folder != "." {
		copyFiles(t, filepath.Join(top, folder, "example*_test.go"), filepath.Join(dir, "example"))
	}
	o.run(t, dir, "", "mod", "init", "example.com/outside")
	o.run(t, dir, "", "get", modulePath(folder))
	o.run(t, dir, "", "mod", "tidy")
	if f := readModFile(t, filepath.Join(dir, "go.mod")); len(f.Replace) > 0 {
		t.Errorf("the outside module replaces %v", f.Replace)
	}
	o.run(t, dir, "", "test", "./...")
	if out := o.run(t, dir, typed, "run", ".", "-try"); !strings.Contains(out, printed) {
		t.Errorf("the server printed %q, not %q", out, printed)
	}
}

// checkReadme requires go get in README.md for the root, and a row of the table for other modules.
func checkReadme(t *testing.T, top, folder string) {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"\ngo get " + rootModule + "\n"}
	if folder != "." {
		words = []string{"](" + folder + ")", "](" + folder + "/README.md)"}
	}
	contains := func(word string) bool { return strings.Contains(string(readme), word) }
	if !slices.ContainsFunc(words, contains) {
		t.Errorf("README.md does not say how to install %s: it has none of %q", folder, words)
	}
}

func copyFiles(t *testing.T, pattern, to string) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("there are no files %s: %v", pattern, err)
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}
