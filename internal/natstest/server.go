package natstest

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Serve starts a NATS server with JetStream on the loopback interface, which
// keeps its files in dir and logs nothing, and returns when it accepts
// connections. Port 0 is any free port on which the server can be started again.
// The functions more change the options before the server is made. The caller
// stops the server with [Stop]; in a test, [Start] does.
func Serve(
	dir string, port int, more ...func(*natsserver.Options),
) (srv *natsserver.Server, err error) {
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
	return runServer(opts)
}

func runServer(opts *natsserver.Options) (*natsserver.Server, error) {
	srv, err := natsserver.NewServer(opts)
	if err != nil {
		return nil, err
	}
	log := &fatalLog{}
	srv.SetLoggerV2(log, false, false, false)
	srv.Start()
	const poll = 50 * time.Millisecond
	for began := time.Now(); !srv.ReadyForConnections(poll); {
		err := log.firstError()
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
func Start(
	t testing.TB, dir string, port int, more ...func(*natsserver.Options),
) *natsserver.Server {
	t.Helper()
	srv, err := Serve(dir, port, more...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(srv) })
	return srv
}

// Stop stops a server and returns when it has stopped. Its files stay. A server
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

// Connect returns JetStream on a connection of its own, which closes at the end of
// the test. It reconnects quickly and for ever, and ignores asynchronous errors;
// opts may change that.
func Connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	opts = append([]nats.Option{
		nats.ReconnectWait(20 * time.Millisecond), nats.MaxReconnects(-1),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// fatalLog is the log of a server. It keeps only the first fatal error: the server
// reports in no other way why it cannot start.
type fatalLog struct {
	mu  sync.Mutex
	err error
}

func (*fatalLog) Noticef(string, ...any) {}
func (*fatalLog) Warnf(string, ...any)   {}
func (*fatalLog) Errorf(string, ...any)  {}
func (*fatalLog) Debugf(string, ...any)  {}
func (*fatalLog) Tracef(string, ...any)  {}

func (l *fatalLog) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = cause // so that errors.Is finds it
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// firstError returns the first fatal error, or nil.
func (l *fatalLog) firstError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
