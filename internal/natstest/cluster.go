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

// A router says at which address server from reaches server to, whose own address
// for routes is given.
type router func(from, to int, address string) string

// startCluster also returns the options of the servers. If route is not nil, the
// servers know each other only by the addresses that it returns.
func startCluster(
	t testing.TB, n int, route router,
) (servers []*natsserver.Server, options []*natsserver.Options) {
	t.Helper()
	err := onFreePorts(func() (err error) {
		servers, options, err = tryCluster(t, n, route)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, servers)
	return servers, options
}

// tryCluster makes one attempt on new ports. If one server does not start it stops
// the others.
func tryCluster(
	t testing.TB, n int, route router,
) (servers []*natsserver.Server, options []*natsserver.Options, err error) {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		ports[i] = nextPort()
	}
	for i := range n {
		routes := routesFrom(i, ports, route)
		srv, err := Serve(t.TempDir(), nextPort(), func(o *natsserver.Options) {
			o.ServerName = fmt.Sprint("n", i)
			o.Cluster = natsserver.ClusterOpts{Name: "rondo", Host: "127.0.0.1", Port: ports[i]}
			if route != nil {
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

// routesFrom returns the URLs at which server i reaches the others.
func routesFrom(i int, ports []int, route router) (urls []string) {
	for j, port := range ports {
		if j == i {
			continue
		}
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if route != nil {
			address = route(i, j, address)
		}
		urls = append(urls, "nats://"+address)
	}
	return urls
}

// awaitLeader waits until the servers have elected a leader and it knows all of
// them.
func awaitLeader(t testing.TB, servers []*natsserver.Server) {
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

// A WiredCluster is a JetStream cluster whose servers are connected by wires, so
// that a test can partition it. Only the goroutine of the test may use it.
type WiredCluster struct {
	// Servers are those of the cluster. Restart replaces one by a new one.
	Servers []*natsserver.Server

	options []*natsserver.Options
	wires   map[[2]int]*Wire // from, to
	clients [][]*Wire        // to each server
}

// StartWiredCluster starts a cluster of n servers, all of them connected, and
// returns it when it has a leader.
func StartWiredCluster(t testing.TB, n int) *WiredCluster {
	t.Helper()
	c := &WiredCluster{wires: make(map[[2]int]*Wire)}
	c.clients = make([][]*Wire, n)
	c.Servers, c.options = startCluster(t, n, func(from, to int, address string) string {
		w := NewWire(t, address)
		c.wires[[2]int{from, to}] = w
		return w.Address()
	})
	return c
}

// Isolate disconnects server i from the others; its clients stay connected to it.
func (c *WiredCluster) Isolate(i int) { c.eachWireOf(i, (*Wire).Cut) }

// Rejoin undoes Isolate. The servers reconnect some time after it returns: see
// [WiredCluster.AwaitConnected].
func (c *WiredCluster) Rejoin(i int) { c.eachWireOf(i, (*Wire).Mend) }

// ClientURL returns a URL at which clients reach server i by a wire, which Crash and Stall
// break as well.
func (c *WiredCluster) ClientURL(t testing.TB, i int) string {
	t.Helper()
	w := NewWire(t, c.Servers[i].Addr().String())
	c.clients[i] = append(c.clients[i], w)
	return "nats://" + w.Address()
}

// Crash ends server i as the death of its process does: its connections break, and it does
// nothing else, such as handing over what it leads. Restart undoes it.
func (c *WiredCluster) Crash(i int) {
	c.eachWireOf(i, (*Wire).Cut)
	c.eachClientOf(i, (*Wire).Cut)
	Stop(c.Servers[i])
}

// Stall keeps server i from sending and receiving, while its connections stay. Resume undoes
// it.
func (c *WiredCluster) Stall(i int) {
	c.eachWireOf(i, (*Wire).Block)
	c.eachClientOf(i, (*Wire).Block)
}

// Resume undoes Stall: what was delayed is delivered.
func (c *WiredCluster) Resume(i int) {
	c.eachWireOf(i, (*Wire).Mend)
	c.eachClientOf(i, (*Wire).Mend)
}

func (c *WiredCluster) eachClientOf(i int, f func(*Wire)) {
	for _, w := range c.clients[i] {
		f(w)
	}
}

func (c *WiredCluster) eachWireOf(i int, f func(*Wire)) {
	for pair, w := range c.wires {
		if pair[0] == i || pair[1] == i {
			f(w)
		}
	}
}

// Routed returns how many other servers server i is connected to.
func (c *WiredCluster) Routed(i int) int {
	routes, err := c.Servers[i].Routez(nil)
	if err != nil {
		return 0
	}
	peers := make(map[string]bool) // there are several routes to each
	for _, r := range routes.Routes {
		peers[r.RemoteID] = true
	}
	return len(peers)
}

// AwaitConnected waits until every server is connected to all others.
func (c *WiredCluster) AwaitConnected(t testing.TB) {
	t.Helper()
	Eventually(t, "the servers are connected", func() bool {
		for i := range c.Servers {
			if c.Routed(i) != len(c.Servers)-1 {
				return false
			}
		}
		return true
	})
}

// Restart starts server i again, which was stopped, on its port and its files.
func (c *WiredCluster) Restart(t testing.TB, i int) {
	t.Helper()
	srv, err := runServer(c.options[i])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(srv) })
	c.Servers[i] = srv
	c.Resume(i)
}

// RestartEmpty is Restart on an empty disk.
func (c *WiredCluster) RestartEmpty(t testing.TB, i int) {
	t.Helper()
	c.options[i].StoreDir = t.TempDir()
	c.Restart(t, i)
}
