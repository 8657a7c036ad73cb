package natstest

import (
	"net"
	"sync"
	"testing"
)

// A Wire is a TCP proxy that can be cut, which closes what is connected and
// lets nothing connect, and blocked, which keeps what is sent to itself, until
// it is mended. Its methods may be called at the same time.
type Wire struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	isCut   bool
	blocked bool
	conns   map[net.Conn]bool
}

// NewWire returns a wire to an address, host and port, that is whole. It is gone
// at the end of the test.
func NewWire(t testing.TB, to string) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{listener: l, to: to, conns: make(map[net.Conn]bool)}
	w.changed = sync.NewCond(&w.mu)
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.Cut()
		w.wg.Wait()
	})
	return w
}

// Address is the host and port to connect to instead of the other end.
func (w *Wire) Address() string { return w.listener.Addr().String() }

func (w *Wire) accept() {
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
func (w *Wire) keep(conns ...net.Conn) bool {
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

func (w *Wire) copy(to, from net.Conn) {
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
func (w *Wire) pass() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.blocked && !w.isCut {
		w.changed.Wait()
	}
	return !w.isCut
}

// Block keeps what is sent, in both directions, until the wire is mended. The
// connections stay, as with a network that drops packets.
func (w *Wire) Block() { w.set(false, true) }

// Mend makes the wire whole. What it kept goes on its way.
func (w *Wire) Mend() { w.set(false, false) }

// Cut closes every connection, and every new one, until the wire is mended.
func (w *Wire) Cut() {
	w.set(true, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *Wire) set(isCut, blocked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut, w.blocked = isCut, blocked
	w.changed.Broadcast()
}
