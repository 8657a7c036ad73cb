package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The program that each outside module builds, tests with the kit and runs, and what its person
// types.
const (
	program = "examples/first"
	typed   = `{"people":3}` + "\n" + `{"place":"window"}` + "\n"
	printed = "a table for 3, window"
)

// oldestAndNewest returns the toolchains of the oldest Go that the modules allow, and of the newest
// that there is.
func (r *release) oldestAndNewest() ([]string, error) {
	f, err := readModFile(filepath.Join(r.top, "go.mod"))
	if err != nil {
		return nil, err
	}
	newest, err := output(command(r.top, "go", "list", "-m", "-f", "{{.Version}}", "go@latest"))
	return []string{"go" + f.Go.Version, "go" + newest}, err
}

// tryOutside installs the root module or all from a proxy on disk, in modules that know nothing of
// the checkout.
func (r *release) tryOutside(dir string, all bool) error {
	folders, toolchains := r.released[:1], []string{"local"}
	if all {
		var err error
		folders = r.released
		if toolchains, err = r.oldestAndNewest(); err != nil {
			return err
		}
	}
	proxy := filepath.Join(dir, "proxy")
	if err := r.writeProxy(proxy); err != nil {
		return err
	}
	for _, toolchain := range toolchains {
		o, err := newOutside(dir, proxy, toolchain)
		if err != nil {
			return err
		}
		for _, folder := range folders {
			began := time.Now()
			if err := o.try(r.top, folder); err != nil {
				return fmt.Errorf("%s, %s: %w", modulePath(folder), o.goVersion, err)
			}
			fmt.Printf("%s@%s: installed, tested and run with %s in %.0fs\n", modulePath(folder),
				r.version, o.goVersion, time.Since(began).Seconds())
		}
	}
	return nil
}

// outside makes modules as users do.
type outside struct {
	dir       string // for modules
	goCommand string
	goVersion string
	env       []string
}

// newOutside finds a toolchain, and has it take rondo from the proxy. The cache of modules is one
// of its own, so that the version that is not released yet stays in no other.
func newOutside(dir, proxy, toolchain string) (*outside, error) {
	locate := command(dir, "go", "env", "GOROOT", "GOVERSION", "GOPROXY", "GOMODCACHE")
	locate.Env = append(locate.Env, "GOTOOLCHAIN="+toolchain)
	told, err := output(locate)
	if err != nil {
		return nil, err
	}
	env := strings.Split(told, "\n")
	if len(env) != 4 {
		return nil, fmt.Errorf("go env printed %q", told)
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
	return o, nil
}

// run runs the go command in a folder and returns all that it prints.
func (o *outside) run(dir, input string, args ...string) (string, error) {
	cmd := exec.Command(o.goCommand, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, o.env, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out), err
}

// install makes a module that has installed one of ours with the words of the README, with the
// files of the first server and, in a folder, the module's examples.
func (o *outside) install(top, folder string) (dir string, err error) {
	dir = filepath.Join(o.dir, filepath.FromSlash(folder), "outside")
	readme, err := os.ReadFile(filepath.Join(top, "README.md"))
	if err != nil {
		return "", err
	}
	words := "\ngo get " + rootModule + "\n"
	if !strings.Contains(string(readme), words) ||
		folder != "." && !strings.Contains(string(readme), "]("+folder+")") {
		return "", errors.New("README.md does not say how to install it")
	}
	if err := copyFiles(filepath.Join(top, program, "*.go"), dir); err != nil {
		return "", err
	}
	if folder != "." {
		examples := filepath.Join(top, folder, "example*_test.go")
		if err := copyFiles(examples, filepath.Join(dir, "example")); err != nil {
			return "", err
		}
	}
	for _, args := range [][]string{{"mod", "init", "example.com/outside"},
		{"get", modulePath(folder)}, {"mod", "tidy"}} {
		if _, err := o.run(dir, "", args...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// copyFiles copies the files that a pattern matches, at least one, into a folder.
func copyFiles(pattern, to string) error {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no files %s: %w", pattern, err)
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// try installs a module, runs the tests of the outside module, and its server with a person that
// answers.
func (o *outside) try(top, folder string) error {
	dir, err := o.install(top, folder)
	if err != nil {
		return err
	}
	if _, err := o.run(dir, "", "test", "./..."); err != nil {
		return err
	}
	out, err := o.run(dir, typed, "run", ".", "-try")
	if err == nil && !strings.Contains(out, printed) {
		err = fmt.Errorf("the server printed %q, not %q", out, printed)
	}
	return err
}
