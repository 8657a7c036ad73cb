package hophttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/replicas"
)

const reply = `{"jsonrpc":"2.0","id":3,"result":{"action":"accept"}}`

// An answered owner takes answers, and what happens to them on their way can be chosen.
type answered struct {
	owner     *httptest.Server   // behind a proxy
	forwarder *hophttp.Forwarder // of another replica
	self      hophttp.Owner
	id        string
	served    atomic.Int32 // answers that reached the handler
	status    func(n int32) int

	mu   sync.Mutex
	lose int // responses to answers that get lost
}

func startAnswered(t *testing.T) *answered {
	t.Helper()
	s := &answered{status: func(int32) int { return http.StatusAccepted }}
	a := newForwarder(t, "a")
	owner := serve(t, route(a, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) != reply {
			t.Errorf("the owner got %s", body)
		}
		status := s.status(s.served.Add(1))
		w.WriteHeader(status)
		if status >= http.StatusBadRequest {
			_, _ = io.WriteString(w, "no such question")
		}
	})))
	at, err := url.Parse(owner.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	s.owner = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		lose := s.lose > 0 && r.Header.Get("Rondo-Replica-Hop") != ""
		if lose {
			s.lose--
		}
		s.mu.Unlock()
		if lose {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	s.forwarder = newForwarder(t, "b", locatedAt(t, s.owner.URL))
	s.self, s.id = a.Self(), a.SealSession("x")
	return s
}

// deliver sends an answer whose client is gone until the owner has it, or cannot get it. status is
// that of the owner, 0: there is no response.
func (s *answered) deliver(t *testing.T) (status int, body string, err error) {
	t.Helper()
	client, leave := context.WithCancel(t.Context())
	d := hophttp.NewDelivery(func(w http.ResponseWriter, r *http.Request, owner hophttp.Owner,
		body []byte) (event.RequestForwarded, bool) {
		return s.forwarder.Forward(w, r, owner, body, 0)
	}, newRequest(t, "POST", "/", s.id, reply).WithContext(client), s.self, []byte(reply))
	leave()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = d.Send(ctx)
	recorder := httptest.NewRecorder()
	if !d.WriteResponse(recorder) {
		return 0, "", err
	}
	return recorder.Code, recorder.Body.String(), err
}

// wantTaken delivers an answer that the owner takes, which its handler has served so often then.
func (s *answered) wantTaken(t *testing.T, served int32) {
	t.Helper()
	status, body, err := s.deliver(t)
	if status != http.StatusAccepted || body != "" || err != nil {
		t.Errorf("got %d: %s, %v", status, body, err)
	}
	s.wantServed(t, served)
}

func (s *answered) wantServed(t *testing.T, want int32) {
	t.Helper()
	if n := s.served.Load(); n != want {
		t.Errorf("the handler was called %d times, want %d", n, want)
	}
}

func TestAnswersReachTheirOwner(t *testing.T) {
	s := startAnswered(t)
	s.wantTaken(t, 1)
	s.status = func(int32) int { return http.StatusBadRequest }
	status, body, err := s.deliver(t)
	if status != http.StatusBadRequest || body != "no such question" || err == nil {
		t.Errorf("got %d: %s, %v", status, body, err)
	}
	s.wantServed(t, 2)
}

// An answer of which it is not known whether it was taken is sent again.
func TestAnswerWhoseResponseIsLost(t *testing.T) {
	s := startAnswered(t)
	s.lose = 2
	s.wantTaken(t, 3)
}

// An answer that was not taken is served again.
func TestAnswerToABusyOwner(t *testing.T) {
	s := startAnswered(t)
	s.status = func(n int32) int {
		return map[int32]int{1: http.StatusServiceUnavailable, 2: http.StatusTooManyRequests,
			3: http.StatusAccepted}[n]
	}
	s.wantTaken(t, 3)
}

// That an owner is dead is known at once.
func TestAnswerToADeadOwner(t *testing.T) {
	s := startAnswered(t)
	s.owner.Close()
	began := time.Now()
	if status, body, err := s.deliver(t); status != 0 || !hophttp.IsDead(err) {
		t.Errorf("got %d: %s, %v", status, body, err)
	}
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("it took %v", took)
	}
	s.wantServed(t, 0)
}

// Of an owner that dies after it may have taken an answer the outcome is not known.
func TestAnswerThatADyingOwnerMayHaveTaken(t *testing.T) {
	s := startAnswered(t)
	s.lose = 1
	s.status = func(int32) int {
		s.owner.Listener.Close()
		return http.StatusAccepted
	}
	if status, body, err := s.deliver(t); status != 0 || err == nil ||
		!strings.Contains(err.Error(), "did not answer") {
		t.Errorf("got %d: %s, %v", status, body, err)
	}
	s.wantServed(t, 1)
}

// A partition looks like an owner that is gone. The answer arrives when it ends.
func TestAnswerOutlivesAPartition(t *testing.T) {
	s := startAnswered(t)
	var dials atomic.Int32
	s.forwarder.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EHOSTUNREACH}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	s.wantTaken(t, 1)
}

// An answer waits for an owner that is silent, which gets it when it wakes.
func TestAnswerWaitsForASilentOwner(t *testing.T) {
	s := startAnswered(t)
	var dials atomic.Int32
	s.forwarder.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 { // connected, and nobody reads
			conn, _ := net.Pipe()
			return conn, nil
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	s.wantTaken(t, 1)
}

// An answer to a living owner is never thrown away because the network is broken.
func TestOwnersThatAreDead(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"refused", syscall.ECONNREFUSED, true},
		{"another process", fmt.Errorf("%w: no proof", hophttp.ErrOther), true},
		{"no replica has the name", replicas.ErrUnknown, true},
		{"a proxy in front of it", errors.New("status 503"), false},
		{"a connection that broke", syscall.ECONNRESET, false},
		{"no such host", &net.DNSError{IsNotFound: true}, true},
		{"DNS that is down", &net.DNSError{IsTimeout: true}, false},
		{"a dial that timed out", &net.OpError{Err: syscall.ETIMEDOUT}, false},
		{"no route", &net.OpError{Err: syscall.EHOSTUNREACH}, false},
		{"no network", syscall.ENETUNREACH, false},
		{"no descriptor", syscall.EMFILE, false},
	} {
		err := &url.Error{Op: "Post", Err: test.err}
		if got := hophttp.IsConnectDead(err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		if got := hophttp.IsChallengedDead(t.Context(), err); got != test.want {
			t.Errorf("%s, challenged: %v, want %v", test.name, got, test.want)
		}
	}
}
