package interop_test

import (
	"context"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// TestWriteTimeout sets the HTTP server's limit on response time below the user's. In a session the
// response still waits for the user. In revision 2026-07-28 no response waits.
func TestWriteTimeout(t *testing.T) {
	for sdk, x := range shapes() {
		for _, revision := range []string{modern, v20251125} {
			for name, dial := range shapeClients() {
				t.Run(sdk+"/"+revision+"/"+name, func(t *testing.T) {
					x.checkWriteTimeout(t, dial, revision)
				})
			}
		}
	}
}

// checkWriteTimeout makes the timeout expire during each question.
func (x shape) checkWriteTimeout(t *testing.T, dial dialerOf, revision string) {
	clock := writeClock{}
	s := newSite()
	who := newPerson(t, agreeing())
	who.before = func(context.Context, string) { clock.expire() }
	endpoint := x.open(t, s, func(server *httptest.Server) {
		server.Config.WriteTimeout = time.Hour // the writeClock expires it
		server.Listener = &clockedListener{server.Listener, &clock}
	})
	c := dial(t, endpoint, revision, newVisit(t, "alice"), who, false)
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	got, err := c.do(ctx, removal())
	if err != nil || got != removed {
		t.Errorf("got %q, %v, want %q", got, err, removed)
	}
	who.wantAsked(1)
	s.wantActs(t, "books")
}

// A writeClock makes connections' write deadlines expire without waiting.
type writeClock struct {
	mu    sync.Mutex
	conns []*clockedConn
}

func (c *writeClock) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		if conn.limited {
			_ = conn.Conn.SetWriteDeadline(time.Unix(1, 0))
		}
	}
}

type clockedListener struct {
	net.Listener
	clock *writeClock
}

func (l *clockedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	clocked := &clockedConn{Conn: conn, clock: l.clock}
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	l.clock.conns = append(l.clock.conns, clocked)
	return clocked, nil
}

type clockedConn struct {
	net.Conn
	clock   *writeClock
	limited bool // a write deadline is set
}

func (c *clockedConn) SetDeadline(at time.Time) error {
	if err := c.SetReadDeadline(at); err != nil {
		return err
	}
	return c.SetWriteDeadline(at)
}

func (c *clockedConn) SetWriteDeadline(at time.Time) error {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	c.limited = !at.IsZero()
	return c.Conn.SetWriteDeadline(at)
}
