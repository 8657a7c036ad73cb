package hophttp_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server/replicas"
)

func forwardTo(f *hophttp.Forwarder, owner hophttp.Owner) event.ForwardOutcome {
	r := httptest.NewRequest("POST", "/", strings.NewReader(ping))
	e, _ := f.Forward(httptest.NewRecorder(), r, owner, []byte(ping), 0)
	return e.Outcome
}

func TestRequestsDoNotPileUpForAnOwnerThatHangs(t *testing.T) {
	for name, locate := range map[string]func(context.Context){
		"until its context ends": func(ctx context.Context) { <-ctx.Done() },
		"ignoring its context":   nil, // replaced below by one that the test ends
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				if locate == nil {
					locate = func(context.Context) { <-end }
				}
				var attempts atomic.Int32
				f := newForwarder(t, "b", func(o *replicas.Options) {
					o.Locate = func(ctx context.Context, _ string) (*url.URL, error) {
						attempts.Add(1)
						locate(ctx)
						return nil, errors.New("the directory hangs")
					}
				})
				owner := hophttp.NewOwner("a")
				began := time.Now()
				if got := forwardTo(f, owner); got != words.ForwardUnreachable {
					t.Errorf("the first request: got %v", got)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("the first request took %v", took)
				}
				time.Sleep(time.Second) // in the bubble: another attempt is due
				var wg sync.WaitGroup
				wg.Go(func() { _ = forwardTo(f, owner) }) // waits for that attempt
				synctest.Wait()
				began = time.Now()
				for range 10_000 {
					if got := forwardTo(f, owner); got != words.ForwardUnreachable {
						t.Fatalf("got %v", got)
					}
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("later requests waited for %v", took)
				}
				if n := attempts.Load(); n > 2 {
					t.Errorf("%d attempts", n)
				}
				close(end)
				wg.Wait()
			})
		})
	}
}

func TestAnOwnerThatClosesConnectionsIsTriedOncePerSecond(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	var accepted atomic.Int32
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			c.Close()
		}
	})
	defer wg.Wait()
	defer listener.Close()
	f := newForwarder(t, "b", locatedAt(t, "http://"+listener.Addr().String()))
	owner := hophttp.NewOwner("a")
	const requests, workers = 10_000, 50
	before, began := runtime.NumGoroutine(), time.Now()
	var next, most atomic.Int32
	var senders sync.WaitGroup
	for range workers {
		senders.Go(func() {
			for next.Add(1) <= requests {
				if got := forwardTo(f, owner); got != words.ForwardGone {
					t.Errorf("got %v", got)
					return
				}
				if n := int32(runtime.NumGoroutine()); n > most.Load() {
					most.Store(n)
				}
			}
		})
	}
	senders.Wait()
	if limit := int32(time.Since(began)/time.Second) + 2; accepted.Load() > limit {
		t.Errorf("%d connections, want at most %d", accepted.Load(), limit)
	}
	// The attempt and the transport have goroutines, too.
	if limit := int32(before + workers + 10); most.Load() > limit {
		t.Errorf("%d goroutines, want at most %d", most.Load(), limit)
	}
}

// An owner that closes an idle connection during a challenge is not dead.
func TestAConnectionThatIsClosedIsNoReasonToStartAnew(t *testing.T) {
	first, second := newForwarder(t, "a"), newForwarder(t, "c")
	var current atomic.Pointer[hophttp.Forwarder]
	current.Store(first)
	var closed atomic.Int32
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	owner := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := current.Load()
		if f == second && r.Header.Get("Rondo-Replica-Challenge") != "" && closed.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		route(f, ok).ServeHTTP(w, r)
	}))
	b := newForwarder(t, "b", locatedAt(t, owner.URL))
	other := serve(t, route(b, nil))
	status, _ := send(t, other, newRequest(t, "POST", other.URL, first.SealSession("x"), ping))
	if status != 200 {
		t.Fatalf("got status %d", status)
	}
	current.Store(second) // at the same address: its challenge takes the idle connection
	status, body := send(t, other,
		newRequest(t, "POST", other.URL, second.SealSession("x"), ping))
	if status != 200 || closed.Load() != 2 {
		t.Errorf("got status %d after %d challenges: %s", status, closed.Load(), body)
	}
}

// The bubble's clock starts in 2000; the owner outside has the real time.
func TestReplicasWhoseClocksDifferServeASession(t *testing.T) {
	var served atomic.Int32
	p := startPair(t, func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = w.Write([]byte("done"))
	})
	real := time.Now()
	synctest.Test(t, func(t *testing.T) {
		if time.Until(real) < 2*time.Minute {
			t.Fatal("the clocks do not differ")
		}
		b := newForwarder(t, "b", locatedAt(t, p.owner.URL))
		defer b.CloseIdle()
		for range 2 {
			recorder := httptest.NewRecorder()
			route(b, nil).ServeHTTP(recorder, newRequest(t, "POST", "/", p.id, ping))
			if recorder.Code != 200 || recorder.Body.String() != "done" {
				t.Errorf("got status %d: %s", recorder.Code, recorder.Body)
			}
		}
	})
	if served.Load() != 2 {
		t.Errorf("the owner served %d requests", served.Load())
	}
}

// A stranger at the owner's address replays one of its proofs.
func TestAProofFitsOneChallenge(t *testing.T) {
	proof := newCodec("k1").Seal(hophttp.KindProof, "nonce", "ticket", "")
	var hops atomic.Int32
	stranger := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Rondo-Replica-Hop") != "" {
			hops.Add(1)
		}
		w.Header().Set("Rondo-Replica-Proof", proof)
	}))
	f := newForwarder(t, "b", locatedAt(t, stranger.URL))
	owner := hophttp.NewOwner("a")
	if got := forwardTo(f, owner); got != words.ForwardGone {
		t.Errorf("got %v", got)
	}
	if hops.Load() != 0 {
		t.Error("the stranger was sent a request")
	}
}

// A reply to another hop does not fit.
func TestAReplyFitsOneHop(t *testing.T) {
	p := startPairBehind(t, nil, func(a *hophttp.Forwarder, _ http.Handler) http.Handler {
		return a.AnswerChallenges(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Rondo-Replica-Hop") == "" {
					t.Error("no hop")
				}
				w.Header().Set("Rondo-Replica-Reply", newCodec("k1").Seal(hophttp.KindReply,
					digest("another hop"), hophttp.VerdictTaken))
			}))
	})
	p.send(t, "POST")
	p.outcomes.want(t, words.ForwardUnknown)
}

// A ticket is renewed before its owner stops accepting it, or when the owner refuses it.
func TestTicketsAreUsedForTwentySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newForwarder(t, "a")
		ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		owned := route(a, ok)
		var challenges int
		var delay time.Duration // of hops on their way
		var refuses bool        // the owner refuses the next ticket
		owner := servertest.ServePipe(t, http.HandlerFunc(func(
			w http.ResponseWriter, r *http.Request,
		) {
			switch hop := r.Header.Get("Rondo-Replica-Hop"); {
			case r.Header.Get("Rondo-Replica-Challenge") != "":
				challenges++
			case refuses:
				refuses = false
				w.Header().Set("Rondo-Replica-Reply", newCodec("k1").Seal(hophttp.KindReply,
					digest(hop), hophttp.VerdictStale))
				w.WriteHeader(421)
				return
			default:
				time.Sleep(delay)
				delay = 0
			}
			owned.ServeHTTP(w, r)
		}))
		b := newForwarder(t, "b", locatedAt(t, servertest.PipeURL))
		b.DialWith(owner.DialContext)
		defer b.CloseIdle()
		h := route(b, nil)
		for _, test := range []struct {
			waits, delay time.Duration
			refuses      bool
			challenges   int // after the request
		}{
			{0, 0, false, 1}, {19 * time.Second, 0, false, 1}, {2 * time.Second, 0, false, 2},
			// Too late: the watched owner refuses the hop, and the request is resent with the
			// latest ticket.
			{0, 35 * time.Second, false, 5},
			{0, 0, true, 6},
		} {
			time.Sleep(test.waits)
			delay, refuses = test.delay, test.refuses
			recorder := httptest.NewRecorder()
			h.ServeHTTP(recorder, newRequest(t, "POST", "/", a.SealSession("x"), ping))
			if recorder.Code != 200 || challenges != test.challenges {
				t.Errorf("%v: got status %d after %d challenges: %s", test, recorder.Code,
					challenges, recorder.Body)
			}
		}
	})
}

// The owner's host refuses credentials of a forwarded request before the owner sees it. Its other
// answers are not the owner's.
func TestTheHostsRefusalReachesTheClient(t *testing.T) {
	served, status := 0, 0
	p := startPairBehind(t, func(http.ResponseWriter, *http.Request) { served++ },
		func(a *hophttp.Forwarder, owned http.Handler) http.Handler {
			return a.AnswerChallenges(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					if status != 0 {
						w.WriteHeader(status)
						return
					}
					owned.ServeHTTP(w, r)
				}))
		})
	for _, test := range []struct{ host, want int }{
		{http.StatusUnauthorized, http.StatusUnauthorized},
		{http.StatusForbidden, http.StatusForbidden}, {http.StatusNotFound, http.StatusBadGateway},
		{http.StatusInternalServerError, http.StatusBadGateway}, {0, http.StatusOK},
	} {
		status = test.host
		if got, _ := p.send(t, "POST"); got != test.want {
			t.Errorf("%d of the host: got %d, want %d", test.host, got, test.want)
		}
	}
	if served != 1 {
		t.Errorf("served %d requests, want 1", served)
	}
}
