//go:build redis

package redisstore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rondo-mcp/rondo/internal/debtest"
	"github.com/rondo-mcp/rondo/internal/proctest"
)

// guard runs a program until the standard input ends, which is also when the test dies.
const guard = `"$0" "$@" & id=$!; echo $id; cat >/dev/null; kill $id; wait $id`

// startRedis starts a server of Debian's package, which listens on a socket of its own, and
// returns a client for each call of connect.
func startRedis(t *testing.T) (connect func() *redis.Client) {
	t.Helper()
	root := debtest.Unpack(t, "redis", "redis-server", "redis-tools")
	dir, err := os.MkdirTemp("", "redis") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("sh", "-c", guard, filepath.Join(root, "usr/bin/redis-server"),
		"--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir, "--loglevel", "warning")
	cmd.Env = append(os.Environ(), debtest.Libraries(t, root))
	proctest.Start(t, cmd).Line()
	connect = func() *redis.Client {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	client := connect()
	const patience = time.Minute
	for end := time.Now().Add(patience); client.Ping(t.Context()).Err() != nil; {
		if time.Now().After(end) {
			t.Fatalf("Redis does not answer within %v", patience)
		}
		<-time.After(10 * time.Millisecond)
	}
	return connect
}
