package natstest

import (
	"fmt"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// A Wired is a JetStream cluster whose servers reach each other over wires
// alone. It is for the goroutine of the test.
type Wired struct {
	// Servers are those of the cluster. Restart puts a new one in the place of
	// the old.
	Servers []*natsserver.Server

	options []*natsserver.Options
	wires   map[[2]int]*Wire // from, to
}

// StartWired starts a cluster of n servers, all of them connected, and returns
// it when it has a leader.
func StartWired(t testing.TB, n int) *Wired {
	t.Helper()
	c := &Wired{Servers: make([]*natsserver.Server, n), options: make([]*natsserver.Options, n), wires: make(map[[2]int]*Wire)}
	ports := make([]int, n)
	for i := range ports {
		ports[i] = FreePort(t)
	}
	for i := range n {
		for j := range n {
			if i != j {
				c.wires[[2]int{i, j}] = NewWire(t, fmt.Sprintf("127.0.0.1:%d", ports[j]))
			}
		}
	}
	for i := range n {
		routes := ""
		for j := range n {
			if i != j {
				routes += ",nats://" + c.wires[[2]int{i, j}].Address()
			}
		}
		dir, client := t.TempDir(), FreePort(t)
		c.Servers[i] = Start(t, dir, client, func(o *natsserver.Options) {
			o.ServerName = fmt.Sprint("n", i)
			// Nobody must find a way around the wires.
			o.Cluster = natsserver.ClusterOpts{Name: "rondo", Host: "127.0.0.1", Port: ports[i], Advertise: "127.0.0.1:1", NoAdvertise: true}
			o.Routes = natsserver.RoutesFromStr(routes[1:])
			c.options[i] = o
		})
	}
	led(t, c.Servers)
	return c
}

// Isolate cuts server i off from the others; its clients stay with it.
func (c *Wired) Isolate(i int) { c.each(i, (*Wire).Cut) }

// Rejoin undoes Isolate. The servers find each other some time after.
func (c *Wired) Rejoin(i int) { c.each(i, (*Wire).Mend) }

func (c *Wired) each(i int, f func(*Wire)) {
	for pair, w := range c.wires {
		if pair[0] == i || pair[1] == i {
			f(w)
		}
	}
}

// Routed is how many other servers server i has routes to.
func (c *Wired) Routed(i int) int {
	peers := 0
	routes, err := c.Servers[i].Routez(nil)
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

// Restart starts server i again, which was stopped, on its port and its files.
func (c *Wired) Restart(t testing.TB, i int) {
	t.Helper()
	srv, err := run(c.options[i])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(srv) })
	c.Servers[i] = srv
}
