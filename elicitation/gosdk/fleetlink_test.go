package gosdk_test

import (
	"net"
	"sync"
)

// A link carries connections from one gateway to another. While it is cut nothing arrives, as in a
// network that drops packets: no connection breaks.
type link struct {
	listener net.Listener

	mu      sync.Mutex
	target  string
	mended  chan struct{} // closed when the link works again; nil: it works
	carried map[net.Conn]struct{}
}

func newLink() (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{listener: listener, carried: make(map[net.Conn]struct{})}
	go l.accept()
	return l, nil
}

func (l *link) url() string { return "http://" + l.listener.Addr().String() }

func (l *link) accept() {
	for {
		from, err := l.listener.Accept()
		if err != nil {
			return
		}
		go l.carry(from)
	}
}

func (l *link) carry(from net.Conn) {
	l.awaitMended()
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	to, err := net.Dial("tcp", target)
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

// copy carries one direction. When it ends, both do.
func (l *link) copy(to, from net.Conn) {
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

func (l *link) awaitMended() {
	l.mu.Lock()
	mended := l.mended
	l.mu.Unlock()
	if mended != nil {
		<-mended
	}
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mended = make(chan struct{})
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mended != nil {
		close(l.mended)
		l.mended = nil
	}
}

// close ends the link as the death of its target does: nobody listens, and connections break.
func (l *link) close() {
	l.listener.Close()
	l.mend()
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.carried {
		conn.Close()
	}
}
