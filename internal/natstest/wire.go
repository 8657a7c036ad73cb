package natstest

import (
	"net"
	"sync"
	"testing"
)

// A Wire is a TCP proxy that a test can break. A wire that is cut closes its
// connections and accepts no new ones. A wire that is blocked keeps its connections
// and delays what is sent on them. Both last until it is mended. Its methods may be
// called concurrently.
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

// NewWire returns a wire to an address, host and port. It closes at the end of the
// test.
func NewWire(t testing.TB, to string) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{listener: l, to: to, conns: make(map[net.Conn]bool)}
	w.changed = sync.NewCond(&w.mu)
	w.wg.Go(w.acceptConns)
	t.Cleanup(func() {
		_ = l.Close()
		w.Cut()
		w.wg.Wait()
	})
	return w
}

// Address returns the host and port of the near end of the wire.
func (w *Wire) Address() string { return w.listener.Addr().String() }

// acceptConns is a goroutine. It ends when the listener is closed.
func (w *Wire) acceptConns() {
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
		if !w.addConns(a, b) {
			continue
		}
		w.wg.Go(func() { w.copyBytes(a, b) })
		w.wg.Go(func() { w.copyBytes(b, a) })
	}
}

// addConns adds connections, or closes them and returns false if the wire is cut.
func (w *Wire) addConns(conns ...net.Conn) bool {
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

// copyBytes is a goroutine. It closes both connections when either fails.
func (w *Wire) copyBytes(to, from net.Conn) {
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
		if err != nil || !w.awaitUnblocked() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// awaitUnblocked waits until the wire is not blocked, and reports whether it is not
// cut.
func (w *Wire) awaitUnblocked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.blocked && !w.isCut {
		w.changed.Wait()
	}
	return !w.isCut
}

// Block delays what is sent in both directions until the wire is mended. The
// connections stay open, as in a network that drops packets.
func (w *Wire) Block() { w.setState(false, true) }

// Mend undoes Block and Cut. What Block has delayed is delivered.
func (w *Wire) Mend() { w.setState(false, false) }

// Cut closes every connection, and closes new ones until the wire is mended.
func (w *Wire) Cut() {
	w.setState(true, false)
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

func (w *Wire) setState(isCut, blocked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut, w.blocked = isCut, blocked
	w.changed.Broadcast()
}
