//go:build postgres

package sqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

const patience = 2 * time.Minute // for a database to start on a busy machine

// A cluster is a PostgreSQL of one test, which can be killed and restarted.
type cluster struct {
	t       *testing.T
	bin     string              // program folder
	env     string              // environment with the programs' libraries
	dir     string              // data folder
	user    *syscall.Credential // that runs it; nil for the test's user
	process *servertest.Process
	next    atomic.Int32 // names databases
}

// untilInputEnds runs a program until standard input ends, also when the test dies.
const untilInputEnds = `"$0" "$@" & id=$!; echo $id; cat >/dev/null; kill -INT $id; wait $id`

// startPostgres starts a cluster on its own socket, from local programs or unpacked packages.
func startPostgres(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, env: "LC_ALL=C"}
	dir, err := os.MkdirTemp("", "postgres") // socket names must be short
	noError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c.dir = dir
	c.findPrograms()
	if os.Getuid() == 0 { // PostgreSQL does not run as root
		c.becomeNobody()
	}
	c.run("initdb", "-D", filepath.Join(c.dir, "data"), "-U", "rondo", "-A", "trust", "-E", "UTF8",
		"--no-sync")
	c.start()
	return c
}

// findPrograms finds the server's programs.
func (c *cluster) findPrograms() {
	find := func(root string) bool {
		found, err := filepath.Glob(filepath.Join(root, "usr/lib/postgresql/*/bin/initdb"))
		if err != nil || len(found) == 0 {
			return false
		}
		c.bin = filepath.Dir(found[len(found)-1])
		return true
	}
	if find("/") {
		return
	}
	root := servertest.UnpackDebs(c.t, "postgresql", "postgresql")
	if !find(root) {
		c.t.Fatalf("the packages in %s have no initdb", root)
	}
	c.env = servertest.DebLibraries(c.t, root)
}

// becomeNobody runs copies of the programs as another user, who owns the data.
func (c *cluster) becomeNobody() {
	nobody, err := user.Lookup("nobody")
	noError(c.t, err)
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	c.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if root, _, unpacked := strings.Cut(c.bin, "/usr/lib/postgresql/"); unpacked && root != "" {
		copied := filepath.Join(c.dir, "root")
		if out, err := exec.Command("cp", "-a", root, copied).CombinedOutput(); err != nil {
			c.t.Fatalf("%v: %s", err, out)
		}
		c.bin = filepath.Join(copied, strings.TrimPrefix(c.bin, root))
		c.env = servertest.DebLibraries(c.t, copied)
	}
	noError(c.t, filepath.WalkDir(c.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	}))
}

func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", c.env)
	if c.user != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.user}
	}
	return cmd
}

func (c *cluster) run(program string, args ...string) {
	c.t.Helper()
	if out, err := c.command(filepath.Join(c.bin, program), args...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// start starts the server, and returns when it answers.
func (c *cluster) start() {
	c.t.Helper()
	cmd := c.command("sh", "-c", untilInputEnds, filepath.Join(c.bin, "postgres"),
		"-D", filepath.Join(c.dir, "data"), "-c", "listen_addresses=",
		"-c", "unix_socket_directories="+c.dir, "-c", "logging_collector=off",
		"-c", "log_min_messages=panic")
	c.process = servertest.StartProcess(c.t, cmd)
	c.process.Line()
	db := c.connect(c.t, "postgres")
	defer db.Close()
	for end := time.Now().Add(patience); ; {
		err := db.PingContext(c.t.Context())
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("PostgreSQL does not answer within %v: %v", patience, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *cluster) kill() {
	text, err := os.ReadFile(filepath.Join(c.dir, "data", "postmaster.pid"))
	if err != nil {
		c.t.Error(err)
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		c.t.Error(err)
		return
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP) // so that it starts no more children
	task := filepath.Join("/proc", first, "task", first, "children")
	children, err := os.ReadFile(task)
	if err != nil {
		c.t.Error(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for _, child := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	c.process.Kill()
	for _, child := range append(strings.Fields(string(children)), first) {
		for isAlive(child) { // a server does not start beside its predecessor's children
			time.Sleep(10 * time.Millisecond)
		}
	}
	// A zombie counts as running to the next server, until it is reaped.
	_ = os.Remove(filepath.Join(c.dir, "data", "postmaster.pid"))
	_ = os.Remove(c.socket() + ".lock")
}

func isAlive(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func (c *cluster) socket() string { return filepath.Join(c.dir, ".s.PGSQL.5432") }

func (c *cluster) url(database string) string {
	return "postgres:///" + database + "?user=rondo&host=" + c.dir
}

func (c *cluster) connect(t *testing.T, database string) *sql.DB {
	t.Helper()
	return open(t, c.url(database))
}

func open(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	noError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (c *cluster) create(t *testing.T) string {
	t.Helper()
	name := fmt.Sprint("test", c.next.Add(1))
	db := c.connect(t, "postgres")
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), "create database "+name); err != nil {
		t.Fatal(err)
	}
	return name
}
