//go:build redis

package redisstore_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// untilInputEnds runs a program until standard input ends, also when the test dies.
const untilInputEnds = `"$0" "$@" & id=$!; echo $id; cat >/dev/null; kill $id; wait $id`

// A redisServer is a server of Debian's package, on its own socket.
type redisServer struct {
	t       *testing.T
	root    string // package folder
	dir     string
	args    []string
	pid     int
	process *servertest.Process
}

// startServer starts redis-server with args; without any it does not persist.
func startServer(t *testing.T, args ...string) *redisServer {
	t.Helper()
	s := &redisServer{t: t, args: args,
		root: servertest.UnpackDebs(t, "redis", "redis-server", "redis-tools")}
	dir, err := os.MkdirTemp("", "redis") // socket names must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.dir = dir
	s.start()
	return s
}

func (s *redisServer) socket() string { return filepath.Join(s.dir, "s") }

func (s *redisServer) start() {
	s.t.Helper()
	args := append([]string{"-c", untilInputEnds, filepath.Join(s.root, "usr/bin/redis-server"),
		"--port", "0", "--unixsocket", s.socket(), "--save", "", "--dir", s.dir,
		"--loglevel", "warning"}, s.args...)
	cmd := exec.Command("sh", args...)
	cmd.Env = append(os.Environ(), servertest.DebLibraries(s.t, s.root))
	s.process = servertest.StartProcess(s.t, cmd)
	var err error
	if s.pid, err = strconv.Atoi(s.process.Line()); err != nil {
		s.t.Fatal(err)
	}
	client := s.connect()
	const patience = time.Minute
	for end := time.Now().Add(patience); client.Ping(s.t.Context()).Err() != nil; {
		if time.Now().After(end) {
			s.t.Fatalf("Redis does not answer within %v", patience)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// listen makes the server listen on a port, for a replica, and returns it.
func (s *redisServer) listen() (port string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	if err := s.connect().ConfigSet(s.t.Context(), "port", port).Err(); err != nil {
		s.t.Fatal(err)
	}
	return port
}

// kill kills the server. Start restarts it with its data on disk.
func (s *redisServer) kill() {
	_ = syscall.Kill(s.pid, syscall.SIGKILL)
	s.process.Kill()
}

func (s *redisServer) connect() *redis.Client {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: s.socket(),
		ContextTimeoutEnabled: true})
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}
