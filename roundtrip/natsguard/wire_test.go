package natsguard_test

import (
	"net"
	"sync"
	"testing"
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
