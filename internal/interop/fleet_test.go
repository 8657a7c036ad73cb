//go:build node && proxy

package interop_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rondo-mcp/rondo/internal/proctest"
)

// everything returns the program examples/everything, which all tests of a run share.
var everything = sync.OnceValues(func() (program string, err error) {
	dir, err := os.MkdirTemp("", "rondo-everything-")
	if err != nil {
		return "", err
	}
	removeAtEnd(dir)
	program = filepath.Join(dir, "everything")
	return program, goBuild(program, "github.com/rondo-mcp/rondo/examples/everything")
})

// A fleet is replicas of examples/everything that know each other.
type fleet struct {
	replicas []*replica
}

// A replica is one process of a fleet.
type replica struct {
	name, address string
	env           []string
	process       *proctest.Process // the guard
	id            int               // of the program
}

// startFleet starts three replicas that forward to each other, until the end of the test.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{}
	names := []string{"ann", "bob", "cyd"}
	var list []string
	for _, name := range names {
		r := &replica{name: name, address: freeAddress(t)}
		f.replicas = append(f.replicas, r)
		list = append(list, name+"=http://"+r.address+"/mcp")
	}
	key := newKey()
	for _, r := range f.replicas {
		r.env = replicaEnv(key, r.name, list)
		r.start(t)
	}
	return f
}

// start starts the process, for the first time or again.
func (r *replica) start(t *testing.T) {
	t.Helper()
	program, err := everything()
	if err != nil {
		t.Fatal(err)
	}
	r.process = startGuarded(t, nil, r.env, program, "-http", r.address)
	if r.id, err = strconv.Atoi(r.process.Line()); err != nil {
		t.Fatal(err)
	}
	if url := r.process.Line(); !strings.Contains(url, r.address) {
		t.Fatalf("replica %s listens at %s, want %s", r.name, url, r.address)
	}
}

// kill ends the process at once, as kill -9 does. Its connections break.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(r.id, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	r.process.Kill()
}

// drain asks the process to end, as whoever deploys does, and does not wait until it has.
func (r *replica) drain(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(r.id, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// addresses are those of the replicas, in the order of the proxy's configuration.
func (f *fleet) addresses() (list []string) {
	for _, r := range f.replicas {
		list = append(list, r.address)
	}
	return list
}

// named returns the replica of that name.
func (f *fleet) named(t *testing.T, name string) *replica {
	t.Helper()
	for _, r := range f.replicas {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("no replica is called %q", name)
	return nil
}

// freeAddress returns an address that nobody listens on. The port lies below those of outgoing
// connections, so that none takes it before the replica does.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, count, attempts = 10_000, 20_000, 100
	for range attempts {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(count))
		listener, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return address
	}
	t.Fatal("no port is free")
	return ""
}
