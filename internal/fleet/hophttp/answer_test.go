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

// The type answered is an owner that takes answers, with failures on the way there.
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
	noError(t, err)
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

// deliver sends a disconnected client's answer until the owner has it or never can. status is 0 if
// there is no response.
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

// An answer is sent until its owner has taken or refused it, or is dead.
func TestAnswersReachTheirOwner(t *testing.T) {
	statuses := func(list ...int) func(*answered) {
		return func(s *answered) { s.status = func(n int32) int { return list[n-1] } }
	}
	firstDial := func(conn net.Conn, err error) func(*answered) {
		return func(s *answered) {
			var dials atomic.Int32
			s.forwarder.DialWith(func(ctx context.Context, network, address string) (net.Conn,
				error) {
				if dials.Add(1) == 1 {
					return conn, err
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			})
		}
	}
	silent, _ := net.Pipe() // a connection that nobody reads
	for _, test := range []struct {
		name   string
		spoil  func(*answered)
		served int32 // how often the owner's handler was called
		status int   // 0 if there is no response
		fails  string
	}{
		{"is taken", func(*answered) {}, 1, http.StatusAccepted, ""},
		{"is refused", statuses(http.StatusBadRequest), 1, http.StatusBadRequest, "400"},
		{"is sent again where it is not known whether it was taken",
			func(s *answered) { s.lose = 2 }, 3, http.StatusAccepted, ""},
		{"is served again by an owner that was busy", statuses(http.StatusServiceUnavailable,
			http.StatusTooManyRequests, http.StatusAccepted), 3, http.StatusAccepted, ""},
		{"has no known outcome where its owner dies", func(s *answered) {
			s.lose = 1
			s.status = func(int32) int {
				s.owner.Listener.Close()
				return http.StatusAccepted
			}
		}, 1, 0, "did not answer"},
		{"outlives a partition, which looks like an owner that is gone", firstDial(nil,
			&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}), 1,
			http.StatusAccepted, ""},
		{"waits for a silent owner, which gets it when it wakes", firstDial(silent, nil), 1,
			http.StatusAccepted, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startAnswered(t)
			test.spoil(s)
			status, body, err := s.deliver(t)
			wantBody := map[bool]string{true: "no such question"}[status >= http.StatusBadRequest]
			if status != test.status || body != wantBody || (err == nil) != (test.fails == "") ||
				err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %d: %s, %v", status, body, err)
			}
			if n := s.served.Load(); n != test.served {
				t.Errorf("the handler was called %d times, want %d", n, test.served)
			}
		})
	}
}

func TestAnswerToADeadOwner(t *testing.T) {
	s := startAnswered(t)
	s.owner.Close()
	began := time.Now()
	if status, body, err := s.deliver(t); status != 0 || !hophttp.IsDead(err) {
		t.Errorf("got %d: %s, %v", status, body, err)
	}
	if took := time.Since(began); took > 500*time.Millisecond || s.served.Load() != 0 {
		t.Errorf("it took %v, and the handler was called %d times", took, s.served.Load())
	}
}

// An answer to a living owner is never dropped because the network fails.
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
