package natsbus_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rondo-mcp/rondo/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long anything may take that a test waits for. It is spent
// only when something is wrong.
const patience = 30 * time.Second

// server starts a real NATS server with JetStream that keeps its files in dir.
// Port 0 takes any.
func startServer(t testing.TB, dir string, port int, more ...func(*natsserver.Options)) *natsserver.Server {
	t.Helper()
	opts := &natsserver.Options{
		Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: dir,
		JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 1 << 30,
	}
	if port == 0 {
		opts.Port = natsserver.RANDOM_PORT
	}
	for _, f := range more {
		f(opts)
	}
	srv, err := natsserver.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { stop(srv) })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	return srv
}

func stop(srv *natsserver.Server) {
	srv.Shutdown()
	srv.WaitForShutdown()
}

// startCluster starts n servers that are one JetStream cluster.
func startCluster(t testing.TB, n int) []*natsserver.Server {
	t.Helper()
	ports := make([]int, n)
	routes := ""
	for i := range ports {
		ports[i] = freePort(t)
		routes += fmt.Sprintf("nats://127.0.0.1:%d,", ports[i])
	}
	servers := make([]*natsserver.Server, n)
	for i := range servers {
		servers[i] = startServer(t, t.TempDir(), 0, func(o *natsserver.Options) {
			o.ServerName = fmt.Sprint("n", i)
			o.Cluster = natsserver.ClusterOpts{Name: "rondo", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = natsserver.RoutesFromStr(routes[:len(routes)-1])
		})
	}
	eventually(t, "the cluster elects a leader", func() bool {
		leader := false
		for _, s := range servers {
			if len(s.JetStreamClusterPeers()) != n && s.JetStreamIsLeader() {
				return false
			}
			leader = leader || s.JetStreamIsLeader()
		}
		return leader
	})
	return servers
}

// freePort returns a port that a server can be started on, and again. It is
// below those that outgoing connections take.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// connect returns JetStream over a connection of its own.
func connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	opts = append([]nats.Option{nats.ReconnectWait(20 * time.Millisecond), nats.MaxReconnects(-1), silent}, opts...)
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

// eventually polls for what has no event to wait for: the inside of a server.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

func portOf(t testing.TB, srv *natsserver.Server) int {
	t.Helper()
	return srv.Addr().(*net.TCPAddr).Port
}
