package natsbus_test

import (
	"fmt"
	"net"
	"sync"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// A wire is a TCP proxy that can be cut, which closes what is connected and
// lets nothing connect, and blocked, which keeps what is sent to itself, until
// it is mended.
type wire struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	isCut   bool
	blocked bool
	conns   map[net.Conn]bool
}

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to, conns: make(map[net.Conn]bool)}
	w.changed = sync.NewCond(&w.mu)
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
		w.wg.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		a, err := w.listener.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = a.Close()
			continue
		}
		if !w.keep(a, b) {
			continue
		}
		w.wg.Go(func() { w.copy(a, b) })
		w.wg.Go(func() { w.copy(b, a) })
	}
}

// keep notes two connections, or closes them if the wire is cut.
func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		if w.isCut {
			_ = c.Close()
		} else {
			w.conns[c] = true
		}
	}
	return !w.isCut
}

func (w *wire) copy(to, from net.Conn) {
	defer func() {
		_, _ = to.Close(), from.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.conns, to)
		delete(w.conns, from)
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !w.pass() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// pass waits until the wire is not blocked, and says whether it is whole.
func (w *wire) pass() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.blocked && !w.isCut {
		w.changed.Wait()
	}
	return !w.isCut
}

func (w *wire) block() { w.set(false, true) }
func (w *wire) mend()  { w.set(false, false) }

func (w *wire) cut() {
	w.set(true, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *wire) set(isCut, blocked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut, w.blocked = isCut, blocked
	w.changed.Broadcast()
}

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
