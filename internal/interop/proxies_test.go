//go:build node && proxy

package interop_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// A proxy is a load balancer in front of a fleet. Its configuration is a file of
// examples/production, as documented, with only the test's addresses and local necessities changed.
type proxy struct {
	name    string
	file    string
	listens string // the file's line with the listening address
	start   func(t *testing.T, p proxy, root string, listener *os.File, configuration string)
}

func proxies() []proxy {
	return []proxy{
		{"nginx", "nginx.conf", "    listen 80;\n", startNginx},
		{"haproxy", "haproxy.cfg", haproxyListens, startHAProxy},
	}
}

const haproxyListens = "    bind :80\n"

// stickyProxy returns a proxy that sends each session to the replica that opened it.
func stickyProxy() proxy {
	return proxy{"haproxy", "haproxy-sticky.cfg", haproxyListens, startHAProxy}
}

// serve starts the proxy, with three replicas, until the test ends. It returns the address.
func (p proxy) serve(t *testing.T, replicas []string) (address string) {
	t.Helper()
	return p.serveURL(t, func(string) []string { return replicas })
}

// serveURL is serve for replicas that need the proxy's address. The function start starts them.
func (p proxy) serveURL(t *testing.T, start func(address string) (replicas []string)) string {
	t.Helper()
	root := installedProxies(t)
	// The proxy inherits the socket: its port stays reserved, and connections wait for it.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	defer listener.Close()
	file, err := listener.(*net.TCPListener).File()
	noError(t, err)
	defer file.Close()
	address := listener.Addr().String()
	p.start(t, p, root, file, p.configure(t, address, start(address)))
	return address
}

// configure returns the proxy's file with the test's addresses.
func (p proxy) configure(t *testing.T, address string, replicas []string) string {
	t.Helper()
	name := p.file
	data, err := os.ReadFile(filepath.Join(production, name))
	noError(t, err)
	text := string(data)
	replace := func(from, to string) {
		if strings.Count(text, from) != 1 {
			t.Fatalf("%s says %q %d times, want once", name, from, strings.Count(text, from))
		}
		text = strings.Replace(text, from, to, 1)
	}
	replace(p.listens, map[string]string{
		"nginx":   "    listen " + address + ";\n",
		"haproxy": "    bind fd@3\n",
	}[p.name])
	for i, replica := range replicas {
		replace(fmt.Sprintf("10.0.0.%d:8080", i+1), replica)
	}
	if strings.Contains(text, "10.0.0.") {
		t.Fatalf("%s names more replicas than %d", name, len(replicas))
	}
	return text
}

// startNginx wraps the configuration like Debian's nginx.conf, which includes such files. All
// output goes to the test's folder. nginx accepts on an inherited socket, as in an upgrade.
func startNginx(t *testing.T, _ proxy, root string, listener *os.File, configuration string) {
	t.Helper()
	dir := t.TempDir()
	site := filepath.Join(dir, "site.conf")
	head := "daemon off;\nworker_processes 1;\npid " + filepath.Join(dir, "pid") + ";\n"
	if os.Getuid() == 0 { // as root, it would become a user who cannot write to the folder
		head += "user root;\n"
	}
	head += "events {}\nhttp {\n\taccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		head += "\t" + kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	whole := filepath.Join(dir, "nginx.conf")
	writeText(t, site, configuration)
	writeText(t, whole, head+"\tinclude "+site+";\n}\n")
	startGuarded(t, listener, []string{"NGINX=3;"},
		filepath.Join(root, "usr/sbin/nginx"), "-e", "stderr", "-c", whole)
}

func startHAProxy(t *testing.T, _ proxy, root string, listener *os.File, configuration string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	writeText(t, file, configuration)
	startGuarded(t, listener, []string{servertest.DebLibraries(t, root)},
		filepath.Join(root, "usr/sbin/haproxy"), "-db", "-f", file)
}

func writeText(t *testing.T, name, text string) {
	t.Helper()
	noError(t, os.WriteFile(name, []byte(text), 0o600))
}

// guard is a script that runs a program and first prints its id. When standard input ends, which
// also happens when the test dies, it sends the program SIGTERM. Some programs report that signal
// as their exit status.
const guard = `"$0" "$@" & id=$!; echo $id; cat >/dev/null; kill $id
	wait $id; status=$?; [ $status -eq 143 ] || exit $status`

// startGuarded starts a program that does not end with its standard input. If file is not nil, it
// is the program's descriptor 3.
func startGuarded(t *testing.T, file *os.File, env []string, program string,
	args ...string) *servertest.Process {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", guard, program}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	return servertest.StartProcess(t, cmd)
}

// installedProxies returns a folder with unpacked nginx and HAProxy.
func installedProxies(t *testing.T) (root string) {
	t.Helper()
	return servertest.UnpackDebs(t, "proxies", "nginx", "haproxy")
}

func runIn(t *testing.T, dir, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, complaints.String())
	}
	return out
}
