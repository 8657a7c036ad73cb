//go:build node

package interop_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What npm fetches. The Inspector does not start on Node 20, which many machines have; npm can bring its own.
const (
	nodeVersion      = "22.23.3"
	tsClientVersion  = "2.4.0"
	tsSDKVersion     = "1.32.2"
	inspectorVersion = "2.12.0"
)

// nodePackages are installed side by side.
func nodePackages() []string {
	return []string{
		"node@" + nodeVersion,
		"@modelcontextprotocol/client@" + tsClientVersion,
		"@modelcontextprotocol/sdk@" + tsSDKVersion,
		"@modelcontextprotocol/inspector@" + inspectorVersion,
	}
}

// A nodeDir is a folder with node_modules, outside of the tree.
type nodeDir string

// node is the program.
func (d nodeDir) node() string {
	return filepath.Join(string(d), "node_modules", "node", "bin", "node")
}

// file is a file of a package.
func (d nodeDir) file(parts ...string) string {
	return filepath.Join(append([]string{string(d), "node_modules"}, parts...)...)
}

// installed returns the folder with all packages, in the user's cache directory. It is fetched aside and moved, so that what
// is there is complete. What cannot be fetched or does not run fails the test.
func installed(t *testing.T) nodeDir {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "rondo-interop")
	name := "node-" + nodeVersion + "-client-" + tsClientVersion + "-sdk-" + tsSDKVersion + "-inspector-" + inspectorVersion
	dir := nodeDir(filepath.Join(cache, name))
	if _, err := os.Stat(string(dir)); errors.Is(err, fs.ErrNotExist) {
		fetch(t, cache, dir)
	}
	version, err := exec.CommandContext(t.Context(), dir.node(), "--version").Output()
	if got := strings.TrimSpace(string(version)); err != nil || got != "v"+nodeVersion {
		t.Fatalf("Node in %s does not run (%q, %v): remove it to fetch it again", dir, got, err)
	}
	return dir
}

// A nodeProcess is a script of testdata that runs.
type nodeProcess struct {
	in   io.WriteCloser
	out  io.ReadCloser
	kill func() error
}

// startNode runs a script, which must end, and have nothing to complain about, when its standard input ends.
func startNode(t *testing.T, script string, args ...string) nodeProcess {
	t.Helper()
	dir := installed(t)
	cmd := exec.Command(dir.node(), append([]string{filepath.Join("testdata", script), string(dir)}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("%s: %v\n%s", script, err, &stderr)
		}
	})
	return nodeProcess{in, out, cmd.Process.Kill}
}

func fetch(t *testing.T, cache string, dir nodeDir) {
	t.Helper()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "fresh-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	args := append([]string{"install", "--prefix", fresh, "--no-audit", "--no-fund", "--loglevel=error"}, nodePackages()...)
	if out, err := exec.CommandContext(t.Context(), "npm", args...).CombinedOutput(); err != nil {
		t.Fatalf("npm is needed to fetch %s: %v\n%s", strings.Join(nodePackages(), ", "), err, out)
	}
	err = os.Rename(fresh, string(dir))
	if _, there := os.Stat(string(dir)); err != nil && there != nil { // else another test was faster
		t.Fatal(err)
	}
}
