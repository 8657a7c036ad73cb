// Package archtest_test tests the repository's own rules: imports between packages, exported names,
// no package state, existence of what pages and comments name, and deliberate growth. Exceptions
// are listed by name with a reason; an unused one fails like a broken rule.
package archtest_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// written lists the files that git keeps or would keep, relative to the root.
func written(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others",
		"--exclude-standard")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git cannot list the files here (a source archive without history?): %v", err)
	}
	var files []string
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		// If Lstat fails, the file's deletion is not yet committed.
		if _, err := os.Lstat(filepath.Join(root(t), name)); err == nil {
			files = append(files, name)
		}
	}
	return files
}

// The variable private lists texts that make sense on one machine only.
var private = []string{"/work/", "/tmp/", "/root/", "/home/", "proxy.golang.org",
	"registry.npmjs.org", "deb.debian.org"}

func TestNothingOfOneMachineIsWritten(t *testing.T) {
	for _, file := range written(t) {
		if strings.HasPrefix(file, "internal/archtest/") || strings.HasSuffix(file, "_test.go") ||
			strings.Contains(file, "/testdata/") {
			continue // the words themselves, and made-up test inputs
		}
		raw, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			continue // a dangling link, or deleted meanwhile
		}
		for _, word := range private {
			if i := bytes.Index(raw, []byte(word)); i >= 0 {
				t.Errorf("%s:%d mentions %s", file, 1+bytes.Count(raw[:i], []byte("\n")), word)
			}
		}
	}
}
