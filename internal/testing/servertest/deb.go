package servertest

// This file unpacks Debian packages for tests. It needs no installation, services or root.

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// UnpackDebs returns a cache folder with the unpacked packages, including missing libraries.
func UnpackDebs(t testing.TB, name string, packages ...string) (root string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	noError(t, err)
	cache = filepath.Join(cache, "rondo-interop")
	root = filepath.Join(cache, name+"-"+release(t))
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		fetch(t, cache, root, packages)
	}
	return root
}

// DebLibraries returns the environment in which unpacked programs find their libraries.
func DebLibraries(t testing.TB, root string) string {
	t.Helper()
	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*"))
	noError(t, err)
	return "LD_LIBRARY_PATH=" + strings.Join(libraries, ":")
}

func release(t testing.TB) string {
	t.Helper()
	about, err := os.ReadFile("/etc/os-release")
	found := regexp.MustCompile(`(?m)^VERSION_CODENAME=(\w+)$`).FindSubmatch(about)
	if err != nil || found == nil {
		t.Fatalf("the program comes from Debian's packages, and this is no Debian (%v)", err)
	}
	return string(found[1])
}

var wouldInstall = regexp.MustCompile(`(?m)^Inst (\S+) `)

// fetch makes apt get its own package lists, because the machine's may be old or missing.
func fetch(t testing.TB, cache, root string, packages []string) {
	t.Helper()
	noError(t, os.MkdirAll(cache, 0o755))
	fresh, err := os.MkdirTemp(cache, "fresh-")
	noError(t, err)
	defer os.RemoveAll(fresh)
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		noError(t, os.MkdirAll(filepath.Join(fresh, dir), 0o755))
	}
	apt := func(args ...string) []byte {
		own := []string{"-qq", "-o", "Dir::State::Lists=" + filepath.Join(fresh, "lists"),
			"-o", "Dir::Cache=" + filepath.Join(fresh, "cache")}
		if os.Getuid() == 0 { // as root, apt would become a user who cannot write to the folder
			own = append(own, "-o", "APT::Sandbox::User=root")
		}
		return run(t, fresh, "apt-get", append(own, args...)...)
	}
	apt("update")
	names := append([]string(nil), packages...)
	install := append([]string{"install", "--simulate", "--no-install-recommends"}, packages...)
	for _, found := range wouldInstall.FindAllSubmatch(apt(install...), -1) {
		names = append(names, string(found[1]))
	}
	apt(append([]string{"download"}, names...)...)
	archives, err := filepath.Glob(filepath.Join(fresh, "*.deb"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("apt-get downloaded no packages (%v)", err)
	}
	for _, name := range archives {
		run(t, fresh, "dpkg-deb", "--extract", name, "root")
	}
	err = os.Rename(filepath.Join(fresh, "root"), root)
	// If the folder is there now, another test was faster.
	if _, there := os.Stat(root); err != nil && there != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, dir, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return out
}
