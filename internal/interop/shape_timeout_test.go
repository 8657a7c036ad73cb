package interop_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"
)

// TestWriteTimeout: the HTTP server limits how long a response may take, and the person takes
// longer. In a session the response waits for the person, so the author lifts the limit for it, as
// the adapters' pages say. In revision 2026-07-28 no response waits.
func TestWriteTimeout(t *testing.T) {
	for sdk, x := range shapes() {
		for _, revision := range []string{modern, v20251125} {
			for name, dial := range shapeClients() {
				t.Run(sdk+"/"+revision+"/"+name, func(t *testing.T) {
					x.checkWriteTimeout(t, dial, revision, true)
				})
			}
		}
		t.Run(sdk+"/a session whose limit is not lifted", func(t *testing.T) {
			x.checkWriteTimeout(t, shapeClients()["rondo"], v20251125, false)
		})
	}
}

// liftWriteTimeout is what the author adds to a server with a WriteTimeout.
func (s *site) liftWriteTimeout(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.keepsWriteTimeout {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
		}
		next.ServeHTTP(w, r)
	})
}

// checkWriteTimeout lets the timeout pass while the person looks at each question.
func (x shape) checkWriteTimeout(t *testing.T, dial dialerOf, revision string, lifted bool) {
	clock := writeClock{failed: make(chan struct{})}
	limited := shape(func(t *testing.T, s *site) http.Handler {
		return s.liftWriteTimeout(x(t, s))
	})
	s := newSite()
	s.keepsWriteTimeout = !lifted
	who := newPerson(t, agreeing())
	who.before = func(context.Context, string) { clock.expire() }
	endpoint := limited.open(t, s, func(server *httptest.Server) {
		server.Config.WriteTimeout = time.Hour // which clock lets pass
		server.Listener = &clockedListener{server.Listener, &clock}
	})
	c := dial(t, endpoint, revision, newVisit(t, "alice"), who, false)
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	if !lifted {
		go func() { // nothing else would end the call
			select {
			case <-clock.failed:
			case <-ctx.Done():
				t.Error("nothing that the server wrote failed")
			}
			cancel()
		}()
		if got, err := c.do(ctx, removal()); err == nil {
			t.Errorf("got %q, which the server cannot have sent", got)
		}
		s.hangUp()
		s.waitIdle(t)
		s.wantActs(t)
		return
	}
	got, err := c.do(ctx, removal())
	if err != nil || got != removed {
		t.Errorf("got %q, %v, want %q", got, err, removed)
	}
	who.wantAsked(1)
	s.wantActs(t, "books")
}

// A writeClock lets the write deadlines of connections pass without waiting for them.
type writeClock struct {
	mu    sync.Mutex
	conns []*clockedConn
	// failed is closed when something was written after its deadline.
	failed     chan struct{}
	failedOnce sync.Once
}

// expire lets all deadlines pass that are set.
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
	limited bool // a deadline is set
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

func (c *clockedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.clock.failedOnce.Do(func() { close(c.clock.failed) })
	}
	return n, err
}
