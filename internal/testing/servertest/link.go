package servertest

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// A Link carries connections to a process. While it is cut, it drops data but breaks nothing.
type Link struct {
	t       testing.TB
	address string

	mu       sync.Mutex
	listener net.Listener // nil: the link is closed
	target   string
	mended   chan struct{} // closed when a cut link works again; nil: it is not cut
	carried  map[net.Conn]struct{}
}

// NewLink returns a link without a target.
func NewLink(t testing.TB) *Link {
	t.Helper()
	l := &Link{t: t, address: "127.0.0.1:0", carried: make(map[net.Conn]struct{})}
	l.Open("")
	t.Cleanup(l.Close)
	return l
}

// Address returns the link's constant host and port.
func (l *Link) Address() string { return l.address }

// URL returns the address as a URL.
func (l *Link) URL() string { return "http://" + l.address }

// Open directs new connections to a host and port or a socket. It opens a closed link.
func (l *Link) Open(target string) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.target = target
	if l.listener != nil {
		return
	}
	listener, err := net.Listen("tcp", l.address)
	noError(l.t, err)
	l.listener, l.address = listener, listener.Addr().String()
	go func() {
		for from, err := listener.Accept(); err == nil; from, err = listener.Accept() {
			go l.carry(from)
		}
	}()
}

func (l *Link) carry(from net.Conn) {
	l.awaitMended()
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	network := "tcp"
	if strings.HasPrefix(target, "/") {
		network = "unix"
	}
	to, err := net.Dial(network, target)
	if err != nil {
		from.Close()
		return
	}
	l.mu.Lock()
	l.carried[from], l.carried[to] = struct{}{}, struct{}{}
	l.mu.Unlock()
	go l.copy(to, from)
	l.copy(from, to)
}

// copy carries one direction. When it ends, it ends both directions.
func (l *Link) copy(to, from net.Conn) {
	defer func() {
		to.Close()
		from.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.carried, to)
		delete(l.carried, from)
	}()
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		l.awaitMended()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *Link) awaitMended() {
	l.mu.Lock()
	mended := l.mended
	l.mu.Unlock()
	if mended != nil {
		<-mended
	}
}

// Cut blocks all traffic until Mend.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mended == nil {
		l.mended = make(chan struct{})
	}
}

// Mend makes a cut link work again.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mended != nil {
		close(l.mended)
		l.mended = nil
	}
}

// Close acts like the death of the link's target: the link stops listening, and connections break.
func (l *Link) Close() {
	l.mu.Lock()
	if l.listener != nil {
		l.listener.Close()
		l.listener = nil
	}
	l.mu.Unlock()
	l.Mend()
	l.Break()
}

// Break breaks all connections. New connections can be opened.
func (l *Link) Break() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.carried {
		conn.Close()
	}
}
