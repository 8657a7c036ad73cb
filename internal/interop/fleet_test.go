//go:build node && proxy

package interop_test

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// A fleet is a set of replicas of internal/conformance/everything that know each other.
type fleet struct {
	replicas []*replica
}

// A replica is one process of a fleet.
type replica struct {
	program       string
	name, address string
	env, args     []string
	process       *servertest.Process // guard of the program
	id            int                 // process id of the program
}

// startFleet starts three replicas that forward to each other, and run until the test ends.
func startFleet(t *testing.T, program string) *fleet {
	t.Helper()
	f := &fleet{}
	names := []string{"ann", "bob", "cyd"}
	var list []string
	for _, name := range names {
		r := &replica{program: program, name: name, address: freeAddress(t)}
		f.replicas = append(f.replicas, r)
		list = append(list, name+"=http://"+r.address+"/mcp")
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	for _, r := range f.replicas {
		r.env = []string{
			"RONDO_KEYS=test:" + base64.StdEncoding.EncodeToString(secret),
			"RONDO_REPLICA=" + r.name,
			"RONDO_REPLICAS=" + strings.Join(list, ","),
		}
		r.start(t)
	}
	return f
}

func (r *replica) start(t *testing.T) {
	t.Helper()
	r.process = startGuarded(t, nil, r.env, r.program,
		append([]string{"-http", r.address}, r.args...)...)
	var err error
	if r.id, err = strconv.Atoi(r.process.Line()); err != nil {
		t.Fatal(err)
	}
	if url := r.process.Line(); !strings.Contains(url, r.address) {
		t.Fatalf("replica %s listens at %s, want %s", r.name, url, r.address)
	}
}

// kill ends the process at once, like kill -9. Its connections break. When kill returns, its
// address has no listener, because the kernel closes that socket later than the output.
func (r *replica) kill(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(r.id, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	r.process.Kill()
	for {
		conn, err := net.Dial("tcp", r.address)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// drain asks the process to end, like a deployment, and does not wait.
func (r *replica) drain(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(r.id, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
}

// addresses returns the replicas' addresses, in the order of the proxy's configuration.
func (f *fleet) addresses() (list []string) {
	for _, r := range f.replicas {
		list = append(list, r.address)
	}
	return list
}

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

// freeAddress returns an unused address. Its port is below the ports of outgoing connections.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, count, attempts = 10_000, 20_000, 100
	for range attempts {
		address := fmt.Sprintf("127.0.0.1:%d", first+mathrand.IntN(count))
		listener, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		noError(t, err)
		noError(t, listener.Close())
		return address
	}
	t.Fatal("no port is free")
	return ""
}
