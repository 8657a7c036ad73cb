//go:build soak

package natsguard_test

import (
	"fmt"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// A wiredCluster is one whose servers reach each other over wires alone.
type wiredCluster struct {
	servers []*natsserver.Server
	options []*natsserver.Options
	wires   map[[2]int]*wire // from, to
}

func startWired(t testing.TB, n int) *wiredCluster {
	t.Helper()
	c := &wiredCluster{servers: make([]*natsserver.Server, n), options: make([]*natsserver.Options, n), wires: make(map[[2]int]*wire)}
	ports := make([]int, n)
	for i := range ports {
		ports[i] = freePort(t)
	}
	for i := range n {
		for j := range n {
			if i != j {
				c.wires[[2]int{i, j}] = newWire(t, fmt.Sprintf("127.0.0.1:%d", ports[j]))
			}
		}
	}
	for i := range n {
		routes := ""
		for j := range n {
			if i != j {
				routes += ",nats://" + c.wires[[2]int{i, j}].address()
			}
		}
		dir, client := t.TempDir(), freePort(t)
		c.servers[i] = startServer(t, dir, client, func(o *natsserver.Options) {
			o.ServerName = fmt.Sprint("n", i)
			// Nobody must find a way around the wires.
			o.Cluster = natsserver.ClusterOpts{Name: "rondo", Host: "127.0.0.1", Port: ports[i], Advertise: "127.0.0.1:1", NoAdvertise: true}
			o.Routes = natsserver.RoutesFromStr(routes[1:])
			c.options[i] = o
		})
	}
	c.led(t)
	return c
}

// led waits until the servers agree upon a leader.
func (c *wiredCluster) led(t testing.TB) {
	t.Helper()
	eventually(t, "the cluster elects a leader", func() bool {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers) {
				return true
			}
		}
		return false
	})
}

// isolate cuts one server off from the others; its clients stay with it.
func (c *wiredCluster) isolate(i int) { c.each(i, (*wire).cut) }
func (c *wiredCluster) rejoin(i int)  { c.each(i, (*wire).mend) }

func (c *wiredCluster) each(i int, f func(*wire)) {
	for pair, w := range c.wires {
		if pair[0] == i || pair[1] == i {
			f(w)
		}
	}
}

// routed is how many other servers a server has routes to.
func (c *wiredCluster) routed(i int) int {
	peers := 0
	routes, err := c.servers[i].Routez(nil)
	if err != nil {
		return 0
	}
	seen := make(map[string]bool)
	for _, r := range routes.Routes {
		if !seen[r.RemoteID] {
			seen[r.RemoteID] = true
			peers++
		}
	}
	return peers
}

// restart starts a server again that was stopped, on its files.
func (c *wiredCluster) restart(t testing.TB, i int) {
	t.Helper()
	srv, err := natsserver.NewServer(c.options[i])
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { stop(srv) })
	if !srv.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start again")
	}
	c.servers[i] = srv
}
