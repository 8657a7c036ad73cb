package hophttp_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server/replicas"
)

// Transports resend requests with such a header when a connection breaks.
func TestARequestWithAnIdempotencyKeyIsServedOnce(t *testing.T) {
	for _, header := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		t.Run(header, func(t *testing.T) {
			var served atomic.Int32
			p := startPair(t, func(http.ResponseWriter, *http.Request) {
				if served.Add(1) == 1 {
					panic(http.ErrAbortHandler) // the work is done, then the owner dies
				}
			})
			status, body := p.send(t, "POST", header, "1")
			wantUnknown(t, status, body)
			if n := served.Load(); n != 1 {
				t.Errorf("the owner served the request %d times", n)
			}
		})
	}
}

// The type givenUp is a context whose error is not that of a disconnected client.
type givenUp struct {
	context.Context
	end chan struct{}
}

func (c givenUp) Done() <-chan struct{} { return c.end }

func (c givenUp) Err() error {
	select {
	case <-c.end:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAHopThatIsGivenUpHasNoKnownOutcome(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	p := startPair(t, func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})
	defer close(release)
	ctx := givenUp{t.Context(), make(chan struct{})}
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.passes.ServeHTTP(w, r.WithContext(ctx))
	}))
	go func() {
		<-entered
		close(ctx.end)
	}()
	status, body := send(t, other, newRequest(t, "POST", other.URL, p.id, ping))
	wantUnknown(t, status, body)
	p.outcomes.want(t, words.ForwardUnknown)
}

func TestAClientThatLeavesEndsTheHop(t *testing.T) {
	entered, left, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := startPair(t, func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
		close(left)
	})
	other := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		defer func() { // an empty response would mean success
			if v := recover(); v != http.ErrAbortHandler {
				t.Errorf("the response is complete: %v", v)
			}
			panic(http.ErrAbortHandler)
		}()
		p.passes.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	r := newRequest(t, "POST", other.URL, p.id, ping).WithContext(ctx)
	if response, err := other.Client().Do(r); err == nil {
		response.Body.Close()
		t.Errorf("got status %d", response.StatusCode)
	}
	<-left
	<-done
	p.outcomes.want(t, words.ForwardAbandoned)
}

func TestHeadersBetweenReplicasAreNotThoseOfClients(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	p := startPair(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Clone(context.Background()))
		_, _ = io.Copy(w, r.Body)
	})
	for name, header := range map[string][]string{
		"lower case":        {"rondo-replica-hop", "x"},
		"upper case":        {"RONDO-REPLICA-HOP", p.id},
		"twice":             {"Rondo-Replica-Hop", "x", "rondo-replica-hop", "y"},
		"named as a hop":    {"Connection", "Rondo-Replica-Hop, Rondo-Replica-Reply"},
		"session as a hop":  {"Connection", "Mcp-Session-Id"},
		"lower-case as hop": {"connection", "mcp-session-id"},
		"a reply":           {"rondo-replica-reply", "x", "Rondo-Replica-Proof", "x"},
		"an upgrade":        {"Connection", "Upgrade", "Upgrade", "rondo"},
		"a challenge":       {"rOnDo-replica-challenge", strings.Repeat("A", 4<<10)},
		"two challenges":    {"Rondo-Replica-Challenge", "x", "Rondo-Replica-Challenge", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			seen.Store(nil)
			r := newRequest(t, "POST", p.other.URL, p.id, ping)
			for i := 0; i+1 < len(header); i += 2 { // as spelled
				r.Header[header[i]] = append(r.Header[header[i]], header[i+1])
			}
			if status, body := send(t, p.other, r); status != 200 || body != ping {
				t.Fatalf("got status %d: %s", status, body)
			}
			got := seen.Load()
			if got.Header.Get("Mcp-Session-Id") != p.id {
				t.Errorf("the owner was asked for session %q", got.Header["Mcp-Session-Id"])
			}
			for key := range got.Header {
				if strings.HasPrefix(key, "Rondo-") || key == "Upgrade" {
					t.Errorf("the owner's handler sees %s", key)
				}
			}
		})
	}
}

// A GET is repeated, so that its client learns the reason.
func TestAGetIsSentAgain(t *testing.T) {
	for name, test := range map[string]struct {
		lives  bool
		status int
	}{"to an owner that lives": {true, 200}, "to a dead owner": {false, 404}} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			var p *pair
			p = startPair(t, func(http.ResponseWriter, *http.Request) {
				if asked.Add(1) > 1 {
					return
				}
				if !test.lives {
					p.owner.Listener.Close()
				}
				panic(http.ErrAbortHandler)
			})
			r := newRequest(t, "GET", p.other.URL, p.id, "")
			if status, body := send(t, p.other, r); status != test.status {
				t.Errorf("got status %d: %s", status, body)
			}
		})
	}
}

func TestBodiesPassBothWaysOverHTTP2(t *testing.T) {
	a := newForwarder(t, "a")
	var major atomic.Int32
	owner := httptest.NewUnstartedServer(route(a, http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			major.Store(int32(r.ProtoMajor))
			_, _ = io.Copy(w, r.Body)
		})))
	owner.EnableHTTP2 = true
	owner.StartTLS()
	t.Cleanup(owner.Close)
	b := newForwarder(t, "b", locatedAt(t, owner.URL), func(o *replicas.Options) {
		o.TLS = &tls.Config{
			RootCAs: owner.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	})
	other := serve(t, route(b, nil))
	text := strings.Repeat("x", 4<<20)
	for _, chunked := range []bool{false, true} {
		r := newRequest(t, "POST", other.URL, a.SealSession("x"), text)
		if chunked {
			r.ContentLength = -1
			r.Trailer = http.Header{"X-Trailer": {"y"}}
		}
		if status, body := send(t, other, r); status != 200 || body != text {
			t.Errorf("chunked %v: got status %d and %d bytes", chunked, status, len(body))
		}
	}
	if major.Load() != 2 {
		t.Errorf("the replicas speak HTTP/%d", major.Load())
	}
}

func TestAnEarlierStartOfAReplicaOwnsNothing(t *testing.T) {
	first, second := newForwarder(t, "a"), newForwarder(t, "a")
	owner, inner := second.FindOwner(first.SealSession("x"))
	if owner != first.Self() || owner.Name != "a" || owner == second.Self() || inner != "x" {
		t.Errorf("got the owner %v and %q", owner, inner)
	}
}

func TestWithoutItsPartsNothingIsForwarded(t *testing.T) {
	for name, o := range map[string]*replicas.Options{
		"options": nil, "keys": {Name: "a", Locate: nowhere},
		"a shared key": {Name: "a", Keys: keys.EphemeralKeyring(), Locate: nowhere},
		"locate":       {Name: "a", Keys: servertest.NewKeyring("k1")},
	} {
		if f, err := hophttp.New(o); f != nil || err != nil {
			t.Errorf("without %s: got %v, %v", name, f, err)
		}
	}
	if _, err := hophttp.New(&replicas.Options{Name: "A"}); err == nil {
		t.Error("a name that is none is accepted")
	}
}

// A client can ask proxies to remove a header by Connection. The owner must read the same headers
// through any replica.
func TestTheOwnerReadsTheHeadersThatTheClientSent(t *testing.T) {
	var seen atomic.Pointer[http.Header]
	p := startPair(t, func(_ http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		header.Set("Host", r.Host)
		seen.Store(&header)
	})
	for name, value := range map[string]string{
		"Accept": "application/json", "Authorization": "Bearer x", "Baggage": "x=1",
		"Content-Type": "application/json", "Cookie": "x=1", "Dpop": "x", "Forwarded": "for=x",
		"Host": "mcp.example", "Last-Event-Id": "7", "Mcp-Method": "ping", "Mcp-Name": "x",
		"Mcp-Param-Region": "eu", "Mcp-Protocol-Version": "2025-11-25", "Mcp-Session-Id": "",
		"Origin": "https://mcp.example", "Traceparent": "x", "User-Agent": "x",
		"X-Api-Key": "x", "X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": "mcp.example",
		"X-Forwarded-Proto": "https", "X-Real-Ip": "192.0.2.1",
	} {
		for _, connection := range []string{"", name, strings.ToLower(name) + ", close"} {
			got := map[*httptest.Server][]string{}
			for _, ts := range []*httptest.Server{p.owner, p.other} {
				r := newRequest(t, "POST", ts.URL, p.id, ping)
				if r.Host = "mcp.example"; value != "" {
					r.Header.Set(name, value)
				}
				if connection != "" {
					r.Header.Set("Connection", connection)
				}
				if status, body := send(t, ts, r); status != 200 {
					t.Fatalf("%s: got status %d: %s", name, status, body)
				}
				got[ts] = (*seen.Load())[name]
			}
			if !slices.Equal(got[p.owner], got[p.other]) || len(got[p.other]) != 1 {
				t.Errorf("%s with Connection %q: the owner reads %q from the client and %q from "+
					"the other replica", name, connection, got[p.owner], got[p.other])
			}
		}
	}
}

func TestHeadersOfOneConnectionStayThere(t *testing.T) {
	var seen atomic.Pointer[http.Header]
	p := startPair(t, func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		seen.Store(&header)
		w.Header().Set("Keep-Alive", "x")
		w.Header().Set("Proxy-Authenticate", "x")
	})
	for _, name := range []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te",
		"Proxy-Authorization", "Proxy-Authenticate", "Upgrade", "Expect"} {
		r := newRequest(t, "POST", p.other.URL, p.id, ping, name,
			map[string]string{"Te": "trailers", "Expect": "100-continue"}[name])
		r.Header["User-Agent"] = []string{""} // sends no User-Agent
		response, err := p.other.Client().Do(r)
		noError(t, err)
		response.Body.Close()
		if response.StatusCode != 200 || response.Header.Get("Keep-Alive") != "" ||
			response.Header.Get("Proxy-Authenticate") != "" {
			t.Fatalf("%s: got status %d and %v", name, response.StatusCode, response.Header)
		}
		for _, absent := range []string{name, "User-Agent"} {
			if values, ok := (*seen.Load())[absent]; ok {
				t.Errorf("the owner reads %s: %q", absent, values)
			}
		}
	}
}
