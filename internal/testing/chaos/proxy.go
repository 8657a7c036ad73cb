package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Proxy forwards connections to a store, cuts them, and may forward to another store later.
type Proxy struct {
	listener net.Listener

	mu              sync.Mutex
	network, target string
	open            map[net.Conn]bool
}

// NewProxy returns a proxy to an address on a network, "tcp" or "unix".
func NewProxy(t testing.TB, network, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, network: network, target: target, open: map[net.Conn]bool{}}
	go p.accept()
	t.Cleanup(func() { _ = listener.Close(); p.Cut() })
	return p
}

// Address returns where the proxy listens.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

// SetTarget has new connections go elsewhere, and cuts the others.
func (p *Proxy) SetTarget(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		network, target := p.network, p.target
		p.mu.Unlock()
		go p.forward(conn, network, target)
	}
}

func (p *Proxy) forward(conn net.Conn, network, target string) {
	defer p.track(conn)()
	next, err := net.Dial(network, target)
	if err != nil {
		return
	}
	defer p.track(next)()
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{conn, next}, {next, conn}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close() // both ends of a connection end together
		})
	}
	wg.Wait()
}

// track notes a connection as open until the function that it returns closes it.
func (p *Proxy) track(conn net.Conn) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[conn] = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		_ = conn.Close()
		delete(p.open, conn)
	}
}
