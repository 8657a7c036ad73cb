package natstest

import (
	"fmt"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// StartCluster starts n servers that are one JetStream cluster, and returns
// them when it has a leader.
func StartCluster(t testing.TB, n int) []*natsserver.Server {
	t.Helper()
	servers, _ := startCluster(t, n, nil)
	return servers
}

// startCluster also returns the options of the servers. Unless it is nil, way
// is asked where one server is to reach another, whose address for routes is the
// one given, and nobody finds out that address.
func startCluster(t testing.TB, n int, way func(from, to int, address string) string) (servers []*natsserver.Server, options []*natsserver.Options) {
	t.Helper()
	err := onFreePorts(func() (err error) {
		servers, options, err = tryCluster(t, n, way)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	led(t, servers)
	return servers, options
}

// tryCluster makes one attempt, on new ports, and stops what it started if a
// server cannot be.
func tryCluster(t testing.TB, n int, way func(from, to int, address string) string) (servers []*natsserver.Server, options []*natsserver.Options, err error) {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		ports[i] = nextPort()
	}
	for i := range n {
		var routes []string
		for j, port := range ports {
			if j == i {
				continue
			}
			address := fmt.Sprintf("127.0.0.1:%d", port)
			if way != nil {
				address = way(i, j, address)
			}
			routes = append(routes, "nats://"+address)
		}
		srv, err := Serve(t.TempDir(), nextPort(), func(o *natsserver.Options) {
			o.ServerName = fmt.Sprint("n", i)
			o.Cluster = natsserver.ClusterOpts{Name: "rondo", Host: "127.0.0.1", Port: ports[i]}
			if way != nil {
				o.Cluster.Advertise, o.Cluster.NoAdvertise = "127.0.0.1:1", true
			}
			o.Routes = natsserver.RoutesFromStr(strings.Join(routes, ","))
			options = append(options, o)
		})
		if err != nil {
			for _, s := range servers {
				Stop(s)
			}
			return nil, nil, err
		}
		t.Cleanup(func() { Stop(srv) })
		servers = append(servers, srv)
	}
	return servers, options, nil
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
