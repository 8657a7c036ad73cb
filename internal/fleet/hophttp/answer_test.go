package hophttp_test

import (
	"bytes"
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
	"github.com/rondo-mcp/rondo/server/replicas"
)

const (
	reply         = `{"jsonrpc":"2.0","id":3,"result":{"action":"accept"}}`
	headerAttempt = "Rondo-Replica-Attempt"
)

// A keeper lets deliveries go on in the background after a moment.
type keeper struct {
	full    bool
	results chan error // of those that went on
}

// testPatience is long enough for an exchange on a machine that is busy.
const testPatience = 500 * time.Millisecond

func (k *keeper) forward(r *http.Request, _ int,
	send func(context.Context) error) (bool, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	ended, gone := make(chan error), make(chan struct{})
	go func() {
		defer cancel()
		err := send(ctx)
		select {
		case ended <- err:
		case <-gone:
			k.results <- err
		}
	}()
	select {
	case err := <-ended:
		return true, err
	case <-time.After(testPatience):
	}
	close(gone)
	if k.full {
		cancel()
		return false, errors.New("full")
	}
	return false, nil
}

// An answered owner takes answers, and what happens to its answers to challenges and requests can
// be chosen.
type answered struct {
	other, owner *httptest.Server   // a replica, and the owner behind a proxy
	forwarder    *hophttp.Forwarder // of the replica
	id           string
	keeper       keeper
	served       atomic.Int32 // answers that reached the handler
	status       func(n int32) int

	mu   sync.Mutex
	lose int           // responses to answers that get lost
	copy bool          // answers arrive twice at once
	held chan struct{} // nil: nothing is held
}

func startAnswered(t *testing.T) *answered {
	t.Helper()
	s := &answered{status: func(int32) int { return http.StatusAccepted }}
	s.keeper.results = make(chan error, 1)
	a := newForwarder(t, "a")
	owner := serve(t, a.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerAttempt) != "" {
			t.Error("the handler sees the header of replicas")
		}
		_, _ = io.Copy(io.Discard, r.Body)
		status := s.status(s.served.Add(1))
		w.WriteHeader(status)
		if status >= http.StatusBadRequest {
			_, _ = io.WriteString(w, "no such question")
		}
	}), hophttp.WrapOptions{}))
	at, err := url.Parse(owner.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	s.owner = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		isHop := r.Header.Get("Rondo-Replica-Hop") != ""
		held, lose, copies := s.held, s.lose > 0 && isHop, s.copy && isHop
		if lose {
			s.lose--
		}
		s.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
				panic(http.ErrAbortHandler)
			}
		}
		if lose {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		if !copies {
			proxy.ServeHTTP(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		var both sync.WaitGroup
		for _, w := range []http.ResponseWriter{w, httptest.NewRecorder()} {
			both.Go(func() {
				once := r.Clone(r.Context())
				once.Body = io.NopCloser(bytes.NewReader(body))
				proxy.ServeHTTP(w, once)
			})
		}
		both.Wait()
	}))
	b := newForwarder(t, "b", locatedAt(t, s.owner.URL))
	s.forwarder = b
	s.other = serve(t, b.Wrap(http.NotFoundHandler(),
		hophttp.WrapOptions{ForwardAnswer: s.keeper.forward}))
	s.id = a.SealSession("x")
	return s
}

func (s *answered) answer(t *testing.T) (status int, body string) {
	t.Helper()
	return send(t, s.other, newRequest(t, "POST", s.other.URL, s.id, reply))
}

// hold keeps the owner from answering until the function that it returns is called.
func (s *answered) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(chan struct{})
	s.held = held
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = nil
		close(held)
	}
}

func (s *answered) wantServed(t *testing.T, want int32) {
	t.Helper()
	if n := s.served.Load(); n != want {
		t.Errorf("the handler was called %d times, want %d", n, want)
	}
}

func TestAnswersReachTheirOwner(t *testing.T) {
	s := startAnswered(t)
	if status, body := s.answer(t); status != http.StatusAccepted || body != "" {
		t.Errorf("got %d: %s", status, body)
	}
	s.wantServed(t, 1)
	s.status = func(int32) int { return http.StatusBadRequest }
	if status, body := s.answer(t); status != http.StatusBadRequest || body != "no such question" {
		t.Errorf("got %d: %s", status, body)
	}
	s.wantServed(t, 2)
}

// A client does not wait for an owner that is silent, which gets the answer when it wakes.
func TestAnswerWaitsForASilentOwner(t *testing.T) {
	s := startAnswered(t)
	release := s.hold()
	if status, body := s.answer(t); status != http.StatusAccepted || body != "" {
		t.Errorf("got %d: %s", status, body)
	}
	s.wantServed(t, 0)
	release()
	if err := <-s.keeper.results; err != nil {
		t.Error(err)
	}
	s.wantServed(t, 1)
}

func TestAnswerWithoutRoomIsRefused(t *testing.T) {
	s := startAnswered(t)
	s.keeper.full = true
	release := s.hold()
	defer release()
	status, body := s.answer(t)
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "too many answers wait") {
		t.Errorf("got %d: %s", status, body)
	}
	<-s.keeper.results
}

// An answer that was taken, and of which that is not known, is sent again and taken once.
func TestAnswerIsTakenOnce(t *testing.T) {
	s := startAnswered(t)
	s.lose = 2
	if status, _ := s.answer(t); status != http.StatusAccepted {
		t.Errorf("got %d", status)
	}
	if err := <-s.keeper.results; err != nil {
		t.Error(err)
	}
	s.wantServed(t, 1)
	if s.lose != 0 {
		t.Error("it was not sent again")
	}
	if status, _ := s.answer(t); status != http.StatusAccepted {
		t.Errorf("got %d", status)
	}
	s.wantServed(t, 2) // it is another attempt
}

// While an answer is being served its repetition waits for what becomes of it.
func TestAnswersThatArriveTwiceAtOnce(t *testing.T) {
	for _, test := range []struct {
		name         string
		first        int
		want, served int32
	}{
		{"taken", http.StatusAccepted, http.StatusAccepted, 1},
		{"refused", http.StatusBadRequest, 0, 2}, // either may be the first
	} {
		t.Run(test.name, func(t *testing.T) {
			s := startAnswered(t)
			s.copy = true
			s.status = func(n int32) int {
				time.Sleep(50 * time.Millisecond) // the other arrives meanwhile
				if n == 1 {
					return test.first
				}
				return http.StatusAccepted
			}
			if status, _ := s.answer(t); test.want != 0 && status != int(test.want) {
				t.Errorf("got %d", status)
			}
			s.wantServed(t, test.served)
		})
	}
}

// An answer that was not taken is served again.
func TestAnswerToABusyOwner(t *testing.T) {
	s := startAnswered(t)
	s.status = func(n int32) int {
		return map[int32]int{1: http.StatusServiceUnavailable, 2: http.StatusTooManyRequests,
			3: http.StatusAccepted}[n]
	}
	if status, _ := s.answer(t); status != http.StatusAccepted {
		t.Errorf("got %d", status)
	}
	if err := <-s.keeper.results; err != nil {
		t.Error(err)
	}
	s.wantServed(t, 3)
}

// A client cannot name an attempt: it could have an answer of its own taken for a repetition.
func TestClientsNameNoAttempts(t *testing.T) {
	s := startAnswered(t)
	for range 2 {
		for _, at := range []*httptest.Server{s.other, s.owner} {
			r := newRequest(t, "POST", at.URL, s.id, reply, headerAttempt, "mine")
			status, _ := send(t, at, r)
			if status != http.StatusAccepted {
				t.Errorf("got %d", status)
			}
		}
	}
	s.wantServed(t, 4)
	r := newRequest(t, "POST", s.other.URL, s.id, ping, headerAttempt, "mine")
	status, _ := send(t, s.other, r)
	if status != http.StatusAccepted {
		t.Errorf("got %d", status)
	}
	s.wantServed(t, 5)
}

// That an owner is dead its client hears at once, before 202 and without a wait.
func TestAnswerToADeadOwner(t *testing.T) {
	s := startAnswered(t)
	s.owner.Close()
	began := time.Now()
	if status, body := s.answer(t); status != http.StatusNotFound {
		t.Errorf("got %d: %s", status, body)
	}
	if took := time.Since(began); took > testPatience {
		t.Errorf("it took %v", took)
	}
	s.wantServed(t, 0)
}

// Of an owner that dies after it may have taken an answer the client is told that the outcome is
// not known, and not that the session is gone.
func TestAnswerThatADyingOwnerMayHaveTaken(t *testing.T) {
	s := startAnswered(t)
	s.lose = 1
	s.status = func(int32) int {
		s.owner.Listener.Close()
		return http.StatusAccepted
	}
	status, body := s.answer(t)
	if status != http.StatusBadGateway || !strings.Contains(body, "outcome unknown") {
		t.Errorf("got %d: %s", status, body)
	}
	s.wantServed(t, 1)
}

// A partition looks like an owner that is gone. The answer arrives when it ends.
func TestAnswerOutlivesAPartition(t *testing.T) {
	s := startAnswered(t)
	var mended atomic.Bool
	s.forwarder.DialWith(func(ctx context.Context, network, address string) (net.Conn, error) {
		if !mended.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.EHOSTUNREACH}
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	if status, body := s.answer(t); status != http.StatusAccepted {
		t.Errorf("got %d: %s", status, body)
	}
	mended.Store(true)
	if err := <-s.keeper.results; err != nil {
		t.Error(err)
	}
	s.wantServed(t, 1)
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
