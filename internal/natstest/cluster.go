package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// StartCluster starts n servers that are one JetStream cluster, and returns
// them when it has a leader.
func StartCluster(t testing.TB, n int) []*natsserver.Server {
	t.Helper()
	ports := make([]int, n)
	routes := ""
	for i := range ports {
		ports[i] = FreePort(t)
		routes += fmt.Sprintf("nats://127.0.0.1:%d,", ports[i])
	}
	servers := make([]*natsserver.Server, n)
	for i := range servers {
		servers[i] = Start(t, t.TempDir(), 0, func(o *natsserver.Options) {
			o.ServerName = fmt.Sprint("n", i)
			o.Cluster = natsserver.ClusterOpts{Name: "rondo", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = natsserver.RoutesFromStr(routes[:len(routes)-1])
		})
	}
	led(t, servers)
	return servers
}

// led waits until the servers agree upon a leader, which knows all of them.
func led(t testing.TB, servers []*natsserver.Server) {
	t.Helper()
	Eventually(t, "the cluster elects a leader", func() bool {
		leader := false
		for _, s := range servers {
			if len(s.JetStreamClusterPeers()) != len(servers) && s.JetStreamIsLeader() {
				return false
			}
			leader = leader || s.JetStreamIsLeader()
		}
		return leader
	})
}

// FreePort returns a port that a server can be started on, and again. It is
// below those that outgoing connections take.
func FreePort(t testing.TB) int {
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
