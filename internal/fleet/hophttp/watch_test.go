package hophttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/event"
)

// A network can be cut: packets are lost, as behind a router that drops them.
type network struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	lost    atomic.Bool // all data is lost
	accepts bool        // connects even then, as the kernel does for a frozen process
	refuses atomic.Bool // connections, as if nobody listened
}

func (n *network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if n.refuses.Load() {
		return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
	}
	if n.lost.Load() && !n.accepts {
		time.Sleep(2 * time.Second)
		return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	}
	conn, err := n.dial(ctx, network, address)
	return &lossyConn{Conn: conn, network: n, closed: make(chan struct{})}, err
}

type lossyConn struct {
	net.Conn
	network *network
	once    sync.Once
	closed  chan struct{}
}

func (c *lossyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for c.network.lost.Load() {
		select {
		case <-c.closed:
			return 0, net.ErrClosed
		case <-time.After(time.Second):
		}
	}
	return n, err
}

func (c *lossyConn) Write(p []byte) (int, error) {
	if c.network.lost.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *lossyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A fakeFleet is an owner and another replica, with a network in between.
type fakeFleet struct {
	network *network
	other   *servertest.PipeServer
	id      string
}

func newFakeFleet(t *testing.T, next http.HandlerFunc) *fakeFleet {
	a := newForwarder(t, "a")
	n := &network{dial: servertest.ServePipe(t, route(a, next)).DialContext}
	b := newForwarder(t, "b", locatedAt(t, servertest.PipeURL))
	b.DialWith(n.DialContext)
	other := servertest.ServePipe(t, route(b, nil))
	return &fakeFleet{network: n, other: other, id: a.SealSession("x")}
}

// The type sent is the outcome of a request: its status, and how its body ended.
type sent struct {
	status int
	body   string
	err    error
	took   time.Duration
}

// send sends a request on its own connection.
func (f *fakeFleet) send(t *testing.T, method string) sent {
	client := f.other.Client()
	defer time.Sleep(5 * time.Second) // a challenge may be running, which the bubble waits for
	defer client.CloseIdleConnections()
	began := time.Now()
	response, err := client.Do(newRequest(t, method, servertest.PipeURL, f.id, ping))
	if err != nil {
		t.Error(err)
		return sent{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return sent{response.StatusCode, string(body), err, time.Since(began)}
}

// A stopped process or a dropping network breaks no connection: requests in flight end anyway.
func TestRequestsInFlightEndWhenTheirOwnerIsSilent(t *testing.T) {
	for _, method := range []string{"POST", "GET"} {
		for name, test := range map[string]struct{ begins, frozen bool }{
			"before the response": {}, "in the middle of the response": {begins: true},
			"frozen": {frozen: true},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fleet := newFakeFleet(t, func(w http.ResponseWriter, r *http.Request) {
						if test.begins {
							w.Header().Set("Content-Type", "text/event-stream")
							_, _ = io.WriteString(w, ": \n\n")
							_ = http.NewResponseController(w).Flush()
						}
						<-r.Context().Done()
					})
					fleet.network.accepts = test.frozen
					go func() {
						time.Sleep(time.Minute)
						fleet.network.lost.Store(true)
					}()
					got := fleet.send(t, method)
					if limit := time.Minute + 35*time.Second; got.took < time.Minute ||
						got.took > limit {
						t.Errorf("took %v, want at most %v", got.took, limit)
					}
					t.Logf("ended %v after the owner fell silent", got.took-time.Minute)
					switch {
					case test.begins:
						if got.status != 200 || got.err == nil {
							t.Errorf("got %d, %v: looks complete", got.status, got.err)
						}
					default:
						wantUnknown(t, got.status, got.body)
					}
				})
			})
		}
	}
}

func TestRequestsInFlightToALivingOwnerAreNotEnded(t *testing.T) {
	for name, during := range map[string]func(*fakeFleet){
		"a person thinks": func(*fakeFleet) {},
		"the owner is busy": func(f *fakeFleet) {
			f.pause(15 * time.Second)
			f.pause(15 * time.Second)
		},
		"the owner has stopped listening": func(f *fakeFleet) { f.network.refuses.Store(true) },
	} {
		for _, method := range []string{"POST", "GET"} {
			t.Run(method+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fleet := newFakeFleet(t, func(w http.ResponseWriter, _ *http.Request) {
						time.Sleep(time.Hour)
						_, _ = io.WriteString(w, "answered")
					})
					go func() {
						time.Sleep(time.Minute)
						during(fleet)
					}()
					if got := fleet.send(t, method); got.status != 200 || got.body != "answered" {
						t.Errorf("got %d: %s after %v", got.status, got.body, got.took)
					}
				})
			})
		}
	}
}

// pause cuts the network for d, and waits as long again.
func (f *fakeFleet) pause(d time.Duration) {
	f.network.lost.Store(true)
	time.Sleep(d)
	f.network.lost.Store(false)
	time.Sleep(d)
}

// An owner that accepts no more connections, nor challenges, is alive while it sends data.
func TestWhatAStreamBringsIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := newFakeFleet(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 10 {
				_, _ = io.WriteString(w, ": \n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(25 * time.Second)
			}
		})
		dial := fleet.network.dial
		first := true
		fleet.network.dial = func(ctx context.Context, network, at string) (net.Conn, error) {
			if first { // the challenge's connection, before the request's
				first = false
				return dial(ctx, network, at)
			}
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		}
		if got := fleet.send(t, "GET"); got.err != nil || strings.Count(got.body, ":") != 10 {
			t.Errorf("got %q, %v after %v", got.body, got.err, got.took)
		}
	})
}

// A repeatable request does not wait for a silent owner, but for a working one.
func TestPatienceEndsWhereThereIsNoSignOfLife(t *testing.T) {
	const patience = 1500 * time.Millisecond
	for _, test := range []struct {
		name    string
		cut     time.Duration // after the request was sent; never if negative
		outcome event.ForwardOutcome
		limit   time.Duration
	}{
		{"before a proof", 0, words.ForwardUnreachable, patience},
		{"after the request was sent", 100 * time.Millisecond, words.ForwardUnknown, patience},
		{"an hour later", -1, words.ForwardAnswered, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newForwarder(t, "a")
				n := &network{dial: servertest.ServePipe(t, route(a, http.HandlerFunc(
					func(_ http.ResponseWriter, r *http.Request) {
						select {
						case <-time.After(time.Hour):
						case <-r.Context().Done():
						}
					}))).DialContext}
				b := newForwarder(t, "b", locatedAt(t, servertest.PipeURL))
				b.DialWith(n.DialContext)
				if test.cut >= 0 {
					go func() {
						time.Sleep(test.cut)
						n.lost.Store(true)
					}()
					if test.cut == 0 {
						synctest.Wait()
					}
				}
				began := time.Now()
				e, _ := b.Forward(httptest.NewRecorder(), newRequest(t, "POST", servertest.PipeURL,
					a.SealSession("x"), ping), a.Self(), []byte(ping), patience)
				if took := time.Since(began); e.Outcome != test.outcome || took > test.limit {
					t.Errorf("%s (%v) after %v", e.Outcome, e.Err, took)
				}
				time.Sleep(5 * time.Second) // a challenge may be under way
				b.CloseIdle()
			})
		})
	}
}
