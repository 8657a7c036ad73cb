package natstest

import (
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
	c := &Wired{wires: make(map[[2]int]*Wire)}
	c.Servers, c.options = startCluster(t, n, func(from, to int, address string) string {
		w := NewWire(t, address)
		c.wires[[2]int{from, to}] = w
		return w.Address()
	})
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
