package natstest_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/rondo-mcp/rondo/internal/natstest"
)

// takePort listens on a port until the end of the test.
func takePort(t *testing.T, port int) {
	t.Helper()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Skipf("the port that the server would take is somebody's already: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

func TestServersAvoidTakenPorts(t *testing.T) {
	for name, start := range map[string]func() []*natsserver.Server{
		"one server": func() []*natsserver.Server {
			return []*natsserver.Server{natstest.Start(t, t.TempDir(), 0)}
		},
		"a cluster": func() []*natsserver.Server { return natstest.StartCluster(t, 3) },
		"a cluster on wires": func() []*natsserver.Server {
			c := natstest.StartWiredCluster(t, 3)
			c.AwaitConnected(t)
			return c.Servers
		},
	} {
		t.Run(name, func(t *testing.T) {
			port := natstest.PeekPort()
			takePort(t, port)
			for _, srv := range start() {
				if got := srv.Addr().(*net.TCPAddr).Port; got == port {
					t.Errorf("a server is on port %d, which is taken", got)
				}
			}
		})
	}
}

// TestGivenPortIsTaken fails soon, with an error that says so.
func TestGivenPortIsTaken(t *testing.T) {
	port := natstest.Start(t, t.TempDir(), 0).Addr().(*net.TCPAddr).Port
	began := time.Now()
	srv, err := natstest.Serve(t.TempDir(), port)
	if err == nil {
		natstest.Stop(srv)
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > natstest.Patience/2 {
		t.Errorf("it took %v", took)
	}
}
