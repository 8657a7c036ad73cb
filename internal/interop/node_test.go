//go:build node

package interop_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// Versions of npm packages, and of Node: the Inspector does not start on the common Node 20.
const (
	nodeVersion       = "22.23.3"
	tsClientVersion   = "2.4.0"
	tsTasksVersion    = "0.2.2"
	tsServerVersion   = "2.4.0"
	tsSDKVersion      = "1.32.2"
	inspectorVersion  = "2.12.0"
	everythingVersion = "2026.8.31"
	authServerVersion = "9.13.3"
	betterAuthVersion = "1.7.5" // the newest with a release of its plugin oauth-provider
)

func nodePackages() []string {
	return []string{
		"node@" + nodeVersion,
		"@modelcontextprotocol/client@" + tsClientVersion,
		"@modelcontextprotocol/ext-tasks@" + tsTasksVersion,
		"@modelcontextprotocol/server@" + tsServerVersion,
		"@modelcontextprotocol/sdk@" + tsSDKVersion,
		"@modelcontextprotocol/inspector@" + inspectorVersion,
		"@modelcontextprotocol/server-everything@" + everythingVersion,
		"oidc-provider@" + authServerVersion,
		"better-auth@" + betterAuthVersion,
		"@better-auth/oauth-provider@" + betterAuthVersion,
	}
}

// A nodeDir is a folder with node_modules, outside the source tree.
type nodeDir string

func (d nodeDir) node() string {
	return filepath.Join(string(d), "node_modules", "node", "bin", "node")
}

func (d nodeDir) file(parts ...string) string {
	return filepath.Join(append([]string{string(d), "node_modules"}, parts...)...)
}

// The function installed returns the folder with all packages, in the user's cache directory. It is
// fetched elsewhere and moved, so that it is complete. If that fails, the test fails.
func installed(t *testing.T) nodeDir {
	t.Helper()
	cache, err := os.UserCacheDir()
	noError(t, err)
	name := "node-" + nodeVersion + "-client-" + tsClientVersion + "-tasks-" + tsTasksVersion +
		"-server-" + tsServerVersion + "-sdk-" + tsSDKVersion + "-inspector-" +
		inspectorVersion + "-everything-" + everythingVersion + "-oidc-" + authServerVersion +
		"-better-" + betterAuthVersion
	dir := nodeDir(filepath.Join(cache, "rondo-interop", name))
	fetch(t, dir, nodePackages()...)
	version, err := exec.CommandContext(t.Context(), dir.node(), "--version").Output()
	if got := strings.TrimSpace(string(version)); err != nil || got != "v"+nodeVersion {
		t.Fatalf("Node in %s does not run (%q, %v): remove it to fetch it again", dir, got, err)
	}
	return dir
}

// startNode runs a script of testdata. It must end without an error when its input ends.
func startNode(t *testing.T, script string, args ...string) *servertest.Process {
	t.Helper()
	return startNodeWith(t, nil, script, args...)
}

func startNodeWith(t *testing.T, env []string, script string, args ...string) *servertest.Process {
	t.Helper()
	dir := installed(t)
	cmd := exec.Command(dir.node(),
		append([]string{filepath.Join("testdata", script), string(dir)}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	p := servertest.StartProcess(t, cmd)
	p.Quiet = true
	return p
}

// fetch makes npm install packages, or run its own args, in a new folder.
func fetch(t *testing.T, dir nodeDir, packages ...string) {
	t.Helper()
	if _, err := os.Stat(string(dir)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	cache := filepath.Dir(string(dir))
	noError(t, os.MkdirAll(cache, 0o755))
	fresh, err := os.MkdirTemp(cache, "fresh-")
	noError(t, err)
	defer os.RemoveAll(fresh)
	// npm would take half a minute to resolve better-auth's peers, which are not needed.
	args := append([]string{"install", "--prefix", fresh, "--legacy-peer-deps", "--no-audit",
		"--no-fund", "--loglevel=error"}, packages...)
	if out, err := exec.CommandContext(t.Context(), "npm", args...).CombinedOutput(); err != nil {
		t.Fatalf("npm is needed to fetch %s: %v\n%s", strings.Join(packages, ", "), err, out)
	}
	err = os.Rename(fresh, string(dir))
	// If the folder is there now, another test was faster.
	if _, there := os.Stat(string(dir)); err != nil && there != nil {
		t.Fatal(err)
	}
}
