package natstest

import (
	"fmt"
	"os"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// Serve starts a NATS server with JetStream on the loopback interface, which
// keeps its files in dir and logs nothing, and returns when it can be used.
// Port 0 takes any that is free, and on which the server can be started again.
// More changes the options before the server is made. The caller stops the
// server, with [Stop]; in a test, [Start] does.
func Serve(dir string, port int, more ...func(*natsserver.Options)) (srv *natsserver.Server, err error) {
	if port == 0 {
		err = onFreePorts(func() (err error) {
			srv, err = Serve(dir, nextPort(), more...)
			return err
		})
		return srv, err
	}
	opts := &natsserver.Options{
		Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: dir,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30,
	}
	for _, f := range more {
		f(opts)
	}
	return run(opts)
}

func run(opts *natsserver.Options) (*natsserver.Server, error) {
	srv, err := natsserver.NewServer(opts)
	if err != nil {
		return nil, err
	}
	log := &fatal{}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	const poll = 50 * time.Millisecond
	for began := time.Now(); !srv.ReadyForConnections(poll); {
		err := log.failure()
		if err == nil && time.Since(began) > Patience {
			err = fmt.Errorf("it is not ready within %v", Patience)
		}
		if err != nil {
			Stop(srv)
			return nil, fmt.Errorf("the NATS server does not start: %w", err)
		}
	}
	return srv, nil
}

// Start is [Serve] for a test, at whose end the server stops.
func Start(t testing.TB, dir string, port int, more ...func(*natsserver.Options)) *natsserver.Server {
	t.Helper()
	srv, err := Serve(dir, port, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(srv) })
	return srv
}

// Stop stops a server and returns when it is gone. Its files stay. A server
// may be stopped more than once.
func Stop(srv *natsserver.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// ForExample starts a server for an example, which has no [testing.TB], and
// panics if that fails. Stop also removes its files.
func ForExample() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "natstest")
	if err != nil {
		panic(err)
	}
	srv, err := Serve(dir, 0)
	if err != nil {
		_ = os.RemoveAll(dir)
		panic(err)
	}
	return srv.ClientURL(), func() {
		Stop(srv)
		_ = os.RemoveAll(dir)
	}
}
