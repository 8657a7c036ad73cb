package serverhttp_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/internal/fleet/hophttp"
	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/testing/testkit"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestAForwarderThatShutsDownLeavesTheOutcomeUnknown(t *testing.T) {
	f, c := newPair(t)
	done := make(chan *reply, 1)
	go func() { done <- c.call(1, "wait") }()
	<-f.all["a"].steps.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, "Shutdown", f.all["b"].h.Shutdown(ctx), context.Canceled)
	got := <-done
	wantStatus(t, "the call", got, 502)
	wantPart(t, "the error", got.body, `"message":"outcome unknown`)
	// The owner continues: after a 503 the client's retry would run the call twice.
	f.all["a"].steps.allow <- struct{}{}
	wantForwarded(t, f.all["b"], words.ForwardUnknown)
}

// A legacy client cancels with a notification, not by disconnecting.
func TestAClientThatLeavesAForwarderDoesNotCancel(t *testing.T) {
	f := newFleet(t, nil, "a", "b", "c")
	owner := f.all["a"]
	c := openSession(t, owner.ts, "2025-11-25").through(f.all["b"])
	leave := c.startCall(1, "wait")
	ctx := <-owner.steps.entered
	leave()
	wantForwarded(t, f.all["b"], words.ForwardAbandoned)
	noError(t, context.Cause(ctx))
	select {
	case owner.steps.allow <- struct{}{}: // still running
	case err := <-owner.steps.ended:
		t.Errorf("the call has ended: %v", err)
	}
}

func TestNothingOfASessionIsForAnotherPrincipalThroughAnyReplica(t *testing.T) {
	f := newFleet(t, &serverhttp.Options{Authenticate: func(r *http.Request) (
		protocol.Principal, error) {
		subject, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return protocol.Principal{}, errors.New("no token")
		}
		return protocol.Principal{Issuer: "i", Subject: subject}, nil
	}}, "a", "b", "c")
	ada := openAs(t, f.all["a"].ts, "Bearer ada").through(f.all["b"])
	asked := ada.callFlow(1, "elicit")
	question := asked.expect("elicitation/create")
	ran := ada.startCall(2, "wait")
	ctx := <-f.all["a"].steps.entered

	mallory := *ada.through(f.all["c"])
	mallory.bearer = "Bearer mallory"
	for what, response := range map[string]*http.Response{
		"an answer": mallory.post(`{"jsonrpc":"2.0","id":` + string(question.ID) +
			`,"result":{"action":"accept","content":{"name":"Mallory"}}}`),
		"a cancellation": mallory.post(`{"jsonrpc":"2.0","method":"notifications/cancelled",` +
			`"params":{"requestId":2}}`),
		"a stream":     mallory.do(t.Context(), "GET", "", "Content-Type", ""),
		"a resumption": mallory.do(t.Context(), "GET", "", "Last-Event-ID", asked.LastEventID()),
		"a deletion":   mallory.do(t.Context(), "DELETE", ""),
	} {
		wantStatus(t, what, read(t, response), 404)
	}
	mallory.bearer = ""
	wantStatus(t, "nobody", mallory.call(3, "echo"), 401)
	wantEqual(t, "the owner was asked times", len(forwards(f.all["c"])), 5)
	ada.answer(question.ID, `{"action":"accept","content":{"name":"Ada"}}`)
	asked.expect("Ada")
	asked.end()
	noError(t, ctx.Err())
	f.all["a"].steps.allow <- struct{}{}
	ran()
}

// A fleet is several replicas with real listeners.
type fleet struct {
	testing.TB
	located atomic.Int32 // number of calls

	mu   sync.Mutex
	urls map[string]string
	all  map[string]*member
}

// newPair starts the replicas a and b, and opens a session at a for a client of b.
func newPair(t testing.TB) (*fleet, *legacyClient) {
	t.Helper()
	f := newFleet(t, nil, "a", "b")
	return f, openSession(t, f.all["a"].ts, "2025-11-25").through(f.all["b"])
}

type member struct {
	ts     *httptest.Server
	h      *serverhttp.Handler
	srv    *server.Server
	steps  *steps
	events *eventList

	running sync.WaitGroup // requests in the handler
	breaks  atomic.Bool    // break the next forwarded request's connection

	mu  sync.Mutex
	got []*http.Request // received requests, with headers
}

// newFleet starts replicas with names. opts may be nil.
func newFleet(t testing.TB, opts *serverhttp.Options, names ...string) *fleet {
	t.Helper()
	f := &fleet{TB: t, urls: map[string]string{}, all: map[string]*member{}}
	for _, name := range names {
		f.start(name, servertest.NewKeyring("k1"), opts)
	}
	return f
}

// start starts a replica. An older one of that name stays, but is no longer found.
func (f *fleet) start(name string, ring *keys.Keyring, opts *serverhttp.Options) *member {
	f.Helper()
	m := &member{events: &eventList{}}
	srv, steps := legacyServer(f.TB, &server.Options{Observer: m.events})
	m.srv, m.steps = srv, steps
	o := *cmp.Or(opts, &serverhttp.Options{})
	o.Replicas = &replicas.Options{Name: name, Keys: ring, Locate: f.locate}
	h, err := serverhttp.New(srv, &o)
	noError(f, err)
	m.h = h
	m.ts = serveHandler(f.TB, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.running.Add(1)
		defer m.running.Done()
		m.mu.Lock()
		m.got = append(m.got, r.Clone(context.Background()))
		m.mu.Unlock()
		if r.Header.Get("Rondo-Replica-Hop") != "" && m.breaks.Swap(false) {
			panic(http.ErrAbortHandler)
		}
		m.h.ServeHTTP(w, r)
	}))
	f.Cleanup(func() { serverhttp.CloseIdle(m.h) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.urls[name], f.all[name] = m.ts.URL, m
	return m
}

func (f *fleet) locate(_ context.Context, name string) (*url.URL, error) {
	f.located.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch text := f.urls[name]; text {
	case "":
		return nil, replicas.ErrUnknown
	case "broken":
		return nil, errors.New("the directory is down")
	default:
		return url.Parse(text)
	}
}

// move changes the address of a name.
func (f *fleet) move(name, to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.urls[name] = to
}

// The method requests counts the received requests with a header.
func (m *member) requests(header string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.got {
		if len(r.Header[header]) > 0 {
			n++
		}
	}
	return n
}

// The method through makes a client use another replica.
func (c *legacyClient) through(m *member) *legacyClient {
	other := *c
	other.ts, other.client = m.ts, m.ts.Client()
	return &other
}

// The function forwards waits for a replica and returns its reports of forwarded requests.
func forwards(m *member) []event.RequestForwarded {
	m.running.Wait()
	return eventsOf[event.RequestForwarded](m.events)
}

// wantForwarded checks that a replica reported one forwarded request with this outcome.
func wantForwarded(t testing.TB, m *member, outcome event.ForwardOutcome) {
	t.Helper()
	if hops := forwards(m); len(hops) != 1 || hops[0].Outcome != outcome {
		t.Errorf("reported as %+v", hops)
	}
}

func TestAnyReplicaTakesTheRequestsOfASession(t *testing.T) {
	for _, version := range legacyVersions {
		t.Run(version, func(t *testing.T) {
			f := newFleet(t, nil, "a", "b", "c")
			a := openSession(t, f.all["a"].ts, version)
			b, c := a.through(f.all["b"]), a.through(f.all["c"])

			wantStatus(t, "a call", b.call(1, "echo"), 200)
			if version >= "2025-06-18" { // has elicitation
				asked := b.callFlow(2, "elicit")
				question := asked.expect("elicitation/create")
				c.answer(question.ID, `{"action":"accept","content":{"name":"Ada"}}`)
				asked.expect("Ada")
				asked.end()
			}

			go f.all["a"].steps.enter()
			stream := c.callFlow(3, "steps")
			stream.expect(`"progress":1`)
			stream.drop()
			f.all["a"].steps.permit(3)
			resumed := b.listen(stream.LastEventID())
			resumed.expect(`"progress":2`, `"progress":3`, `"id":3,"result"`)
			resumed.end()

			cancelled := b.startCall(4, "wait")
			<-f.all["a"].steps.entered
			wantStatus(t, "cancelled", read(t, c.post(`{"jsonrpc":"2.0","method":`+
				`"notifications/cancelled","params":{"requestId":4}}`)), 202)
			<-f.all["a"].steps.ended
			_ = cancelled()

			wantStatus(t, "DELETE", read(t, c.do(t.Context(), "DELETE", "")), 204)
			for name, gone := range map[string]*legacyClient{"owner": a, "other": b} {
				wantStatus(t, "after DELETE, through the "+name, gone.call(5, "echo"), 404)
			}
		})
	}
}

func (s *steps) enter() {
	<-s.entered
	s.allow <- struct{}{}
}

// startCall sends a call and ignores its response. end() ends the call and returns its error.
func (c *legacyClient) startCall(id int, tool string) (end func() error) {
	ctx, cancel := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, "POST", c.ts.URL,
			strings.NewReader(toolCall(id, tool)))
		if err == nil {
			r.Header = c.header()
			var response *http.Response
			if response, err = c.client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
		done <- err
	}()
	return func() error { cancel(); return <-done }
}

func TestAGetStreamIsForwarded(t *testing.T) {
	f, c := newPair(t)
	g := c.listen("")
	if !strings.HasPrefix(g.response.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("got %v", g.response.Header)
	}
	// The stream does not block the shutdown of the forwarder.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	noError(t, f.all["b"].h.Shutdown(ctx))
	if _, err := io.Copy(io.Discard, g.response.Body); err == nil {
		t.Error("a stream that was cut looks complete")
	}
}

func TestRequestsAreCountedOnceAtTheOwner(t *testing.T) {
	f, c := newPair(t)
	c.call(1, "echo")
	hops := forwards(f.all["b"])
	if len(hops) != 1 || hops[0].Owner != "a" || hops[0].Outcome != words.ForwardAnswered ||
		hops[0].Status != 200 || hops[0].HTTPMethod != "POST" {
		t.Errorf("the forwarder reports %+v", hops)
	}
	if got := forwards(f.all["a"]); len(got) != 0 {
		t.Errorf("the owner reports %+v", got)
	}
	for name, m := range f.all {
		if got := eventsOf[event.RequestRefused](m.events); len(got) != 0 {
			t.Errorf("%s reports %+v", name, got)
		}
	}
}

func TestWhatReplicasSayReachesNoClient(t *testing.T) {
	f := newFleet(t, &serverhttp.Options{AllowedOrigins: []string{"https://app.example.com"}},
		"a", "b")
	c := openSession(t, f.all["a"].ts, "2025-11-25").through(f.all["b"])
	got := c.call(1, "echo", "Origin", "https://app.example.com")
	wantStatus(t, "call", got, 200)
	for key, values := range got.header {
		if strings.HasPrefix(key, "Rondo-") || len(values) != 1 && key != "Vary" {
			t.Errorf("the response has %s: %q", key, values)
		}
	}
	allowed := got.header.Get("Access-Control-Allow-Origin")
	wantEqual(t, "allowed origin", allowed, "https://app.example.com")
}

func TestAnOwnerSeesTheAddressOfTheClient(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	f := newFleet(t, &serverhttp.Options{Authenticate: func(r *http.Request) (
		protocol.Principal, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.RemoteAddr+" "+r.Header.Get("X-Forwarded-For")] = true
		return protocol.Principal{Subject: "ada", Issuer: "i"}, nil
	}}, "a", "b")
	c := openSession(t, f.all["a"].ts, "2025-11-25").through(f.all["b"])
	clear(seen)
	c.call(1, "echo", "X-Forwarded-For", "192.0.2.1")
	if len(seen) != 1 {
		t.Errorf("forwarder and owner authenticate by different headers or addresses: %v", seen)
	}
}

func TestModernRequestsAreNotForwarded(t *testing.T) {
	f := newFleet(t, nil, "a", "b")
	c := openSession(t, f.all["a"].ts, "2025-11-25")
	before := f.all["a"].requests("Mcp-Session-Id")
	got := do(t, f.all["b"].ts, "POST",
		headers("tools/call", "echo", "Mcp-Session-Id", c.session),
		body("tools/call", `"name":"echo","arguments":{"message":"hi"}`))
	wantStatus(t, "modern", got, 200)
	if f.all["a"].requests("Mcp-Session-Id") != before || f.located.Load() != 0 {
		t.Error("a request of revision 2026-07-28 was forwarded")
	}
}

func TestForgedAndForeignSessionIDsAreUnknown(t *testing.T) {
	f, c := newPair(t)
	other := newFleet(t, nil)
	foreign := openSession(t, other.start("a", servertest.NewKeyring("k2"), nil).ts, "2025-11-25")
	sameKey := openSession(t, newFleet(t, nil, "a").all["a"].ts, "2025-11-25")
	state := func(ring *keys.Keyring, text string) string {
		token, _ := ring.Seal(t.Context(), []byte(text))
		return token
	}
	changed := []byte(c.session)
	changed[60] ^= 1 // a random letter might be the same
	for name, id := range map[string]string{
		"changed":             string(changed),
		"cut":                 c.session[:len(c.session)-1],
		"extended":            c.session + "A",
		"another key":         foreign.session,
		"another start":       sameKey.session,
		"the state of a flow": state(servertest.NewKeyring("k1"), "\x01 anything"),
		"long":                strings.Repeat("A", 8<<10),
		"a name":              "a",
		"a URL":               "http://127.0.0.1:1/mcp",
	} {
		forged := *c
		forged.session = id
		wantRefusal(t, name, forged.call(1, "echo"), 404, -32001)
	}
	wantEqual(t, "requests with such ids were forwarded",
		f.all["a"].requests("Rondo-Replica-Hop"), 0)
}

// The cause names the key, the restart, or the replica.
func TestTheEntryOfALostSessionSaysWhy(t *testing.T) {
	tests := []struct {
		name string
		lose func(f *fleet) *member // returns the replica to ask
		says string
	}{
		{"another key", func(f *fleet) *member {
			return f.start("b", servertest.NewKeyring("k2"), nil)
		}, "no key of this process decrypts"},
		{"another start", func(f *fleet) *member {
			return f.start("a", servertest.NewKeyring("k1"), nil)
		}, "before this replica started again"},
		{"an unknown name", func(f *fleet) *member {
			f.move("a", "")
			return f.all["b"]
		}, `replica "a"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFleet(t, nil, "a", "b")
			c := openSession(t, f.all["a"].ts, "2025-11-25")
			asked := test.lose(f)
			wantStatus(t, test.name, c.through(asked).call(1, "echo"), 404)
			asked.running.Wait()
			refused := eventsOf[event.RequestRefused](asked.events)
			if len(refused) != 1 || !strings.Contains(fmt.Sprint(refused[0].Err), test.says) {
				t.Errorf("got %+v, want one that says %q", refused, test.says)
			}
			wantNoPart(t, "Replicas are set, and the entry says", fmt.Sprint(refused), "is not set")
		})
	}
}

func TestAnOwnerThatHangsKeepsItsSessions(t *testing.T) {
	f, c := newPair(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	noError(t, err)
	defer listener.Close()
	f.move("a", "http://"+listener.Addr().String())
	got := c.call(1, "echo") // after the timeout of an exchange
	wantStatus(t, "hanging owner", got, 503)
	if got.header.Get("Retry-After") == "" {
		t.Error("the client is not told when to come back")
	}
}

// The client gets 202 from a replica that cannot reach the owner; the owner gets it once reachable.
func TestAnAnswerDoesNotWaitForItsOwner(t *testing.T) {
	f := newFleet(t, nil, "a", "b")
	c := openSession(t, f.all["a"].ts, "2025-11-25")
	asked := c.callFlow(1, "elicit")
	question := asked.expect("elicitation/create")
	listener, err := net.Listen("tcp", "127.0.0.1:0") // never accepts
	noError(t, err)
	defer listener.Close()
	f.move("a", "http://"+listener.Addr().String())
	began := time.Now()
	c.through(f.all["b"]).answer(question.ID, `{"action":"accept","content":{"name":"Ada"}}`)
	if took := time.Since(began); took > 2*time.Second && !testkit.Race {
		t.Errorf("202 took %v", took)
	}
	f.move("a", f.all["a"].ts.URL)
	for m := asked.next(); !strings.Contains(m.raw, "Ada"); m = asked.next() {
		if m.Method != "notifications/progress" {
			t.Fatal(m.raw)
		}
	}
	asked.end()
}

// getTicket makes a replica prove its ownership of a session, and returns the ticket.
func (f *fleet) getTicket(m *member, c *legacyClient) string {
	f.Helper()
	owner, _ := codec().Open(hophttp.KindSession, c.session)
	r, err := http.NewRequest("POST", m.ts.URL, nil)
	noError(f, err)
	r.Header.Set("Rondo-Replica-Challenge",
		codec().Seal(hophttp.KindChallenge, owner[0], owner[1], "nonce"))
	response, err := m.ts.Client().Do(r)
	noError(f, err)
	response.Body.Close()
	proof, ok := codec().Open(hophttp.KindProof, response.Header.Get("Rondo-Replica-Proof"))
	if !ok {
		f.Fatalf("no proof, status %d", response.StatusCode)
	}
	return proof[1]
}

// forgetTicket makes the client's replica forget the ticket of an owner.
func (f *fleet) forgetTicket(owner *member, c *legacyClient) {
	f.Helper()
	owner.breaks.Store(true)
	wantStatus(f, "broken", c.call(1, "echo"), 502)
}

// codec seals messages between the replicas.
func codec() hophttp.Codec {
	return hophttp.NewCodec(servertest.NewKeyring("k1"))
}

// forge sends a request to a replica as a replica with the key and a ticket would.
func (f *fleet) forge(to, ticket string, c *legacyClient, text string,
	change func(hop []string)) *http.Response {
	f.Helper()
	session, body := sha256.Sum256([]byte(c.session)), sha256.Sum256([]byte(text))
	hop := []string{ticket, string(session[:]), string(body[:]), "POST", ""}
	change(hop)
	return c.through(f.all[to]).post(text, "Rondo-Replica-Hop",
		codec().Seal(hophttp.KindHop, hop...))
}

func TestAForwardedRequestIsNotForwardedAgain(t *testing.T) {
	f := newFleet(t, nil, "a", "b")
	ofA, ofB := openSession(t, f.all["a"].ts, "2025-11-25"),
		openSession(t, f.all["b"].ts, "2025-11-25")
	ticket := f.getTicket(f.all["b"], ofB)
	got := read(t, f.forge("b", ticket, ofA, toolCall(1, "echo"), func([]string) {}))
	wantStatus(t, "forwarded to who does not own it", got, 508)
	wantPart(t, "the error", got.body, "already forwarded once")
	wantEqual(t, "requests forwarded again", f.located.Load(), int32(0))
}

func TestAHopFitsOneRequest(t *testing.T) {
	f := newFleet(t, nil, "a")
	c := openSession(t, f.all["a"].ts, "2025-11-25")
	ticket := f.getTicket(f.all["a"], c)
	for name, test := range map[string]struct {
		field  int // of the hop to change; -1 for none
		status int
	}{"as it should be": {-1, 200}, "another ticket": {0, 421}, "another session": {1, 421},
		"another body": {2, 400}, "another method": {3, 421}} {
		got := read(t, f.forge("a", ticket, c, toolCall(1, "echo"), func(hop []string) {
			if test.field >= 0 {
				hop[test.field] = "DELETE"
			}
		}))
		wantStatus(t, name, got, test.status)
	}
}

func TestAnOwnerThatStartedAnewGetsNoCredentials(t *testing.T) {
	f, c := newPair(t)
	c.bearer = "Bearer secret"
	second := f.start("a", servertest.NewKeyring("k1"), nil)
	wantStatus(t, "the name belongs to another start", c.call(1, "echo"), 404)
	wantStatus(t, "and so does the replica", c.through(second).call(1, "echo"), 404)
	second.mu.Lock()
	defer second.mu.Unlock()
	for _, r := range second.got {
		if r.Header.Get("Authorization") != "" && r.Header.Get("Rondo-Replica-Hop") != "" {
			t.Error("the second start was sent the credentials of a client of the first")
		}
	}
}

func TestAStrangerAtTheAddressGetsNoCredentials(t *testing.T) {
	f, c := newPair(t)
	c.bearer = "Bearer secret"
	var mu sync.Mutex
	var leaked []string
	stranger := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		leaked = append(leaked, r.Header["Authorization"]...)
		leaked = append(leaked, r.Header["Mcp-Session-Id"]...)
		w.Header().Set("Rondo-Replica-Proof", r.Header.Get("Rondo-Replica-Challenge"))
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	f.move("a", stranger.URL)
	wantStatus(t, "stranger", c.call(1, "echo"), 404)
	mu.Lock()
	defer mu.Unlock()
	if len(leaked) > 0 {
		t.Errorf("the stranger was sent %q", leaked)
	}
}

// interpose puts a handler in front of a replica, for forwarded requests.
func (f *fleet) interpose(name string, h http.HandlerFunc) {
	behind := f.all[name].h
	ts := serveHandler(f.TB, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Rondo-Replica-Hop") != "" {
			h(w, r)
			return
		}
		behind.ServeHTTP(w, r)
	}))
	f.move(name, ts.URL)
}

func TestAnOwnerThatDiesWithARequestLeavesTheOutcomeUnknown(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"dies before its response": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		},
		"is replaced by another": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"forged":true}}`)
		},
		"is behind a proxy that answers for it": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := newPair(t)
			f.interpose("a", h)
			got := c.call(1, "echo")
			wantStatus(t, name, got, 502)
			if got.Error == nil || !strings.HasPrefix(got.Error.Message, "outcome unknown") ||
				string(got.ID) != "1" {
				t.Errorf("got %s", got.body)
			}
			wantForwarded(t, f.all["b"], words.ForwardUnknown)
		})
	}
}

func TestAnOwnerThatDiesInMidStreamBreaksTheStream(t *testing.T) {
	f, c := newPair(t)
	go f.all["a"].steps.enter()
	stream := c.callFlow(1, "steps")
	stream.expect(`"progress":1`)
	f.all["a"].ts.CloseClientConnections()
	f.all["a"].ts.Listener.Close()
	if event, err := stream.Next(); err == nil || err == io.EOF {
		t.Errorf("got %q, %v, want a broken connection", event.Data, err)
	}
	// Nothing listens at the owner's address, so it is certainly gone. A GET on a broken connection
	// was retried.
	wantStatus(t, "resumed", read(t, c.do(t.Context(), "GET", "", "Last-Event-ID",
		stream.LastEventID())), 404)
	f.all["a"].steps.permit(3)
}

func TestALargeBodyIsForwarded(t *testing.T) {
	_, c := newPair(t)
	call := func(size int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",` +
			`"arguments":{"message":"` + strings.Repeat("x", size) + `"}}}`
	}
	limit := 16 << 20
	text := call(limit - len(call(0)))
	got := read(t, c.post(text))
	if got.status != 200 || len(got.body) < len(text)-200 {
		t.Errorf("got status %d and %d bytes: %.100s", got.status, len(got.body), got.body)
	}
	wantStatus(t, "one byte more", read(t, c.post(text+" ")), 413)
}

func TestKeysRotateUnderASession(t *testing.T) {
	f := newFleet(t, nil)
	f.start("a", servertest.NewKeyring("k1", "k2"), nil)
	f.start("b", servertest.NewKeyring("k2", "k1"), nil) // already rotated
	f.start("c", servertest.NewKeyring("k2"), nil)       // without the old key
	c := openSession(t, f.all["a"].ts, "2025-11-25")
	wantStatus(t, "through b", c.through(f.all["b"]).call(1, "echo"), 200)
	wantStatus(t, "through c", c.through(f.all["c"]).call(1, "echo"), 404)
	second := openSession(t, f.all["b"].ts, "2025-11-25")
	wantStatus(t, "a session of the new key", second.through(f.all["a"]).call(1, "echo"), 200)
	wantStatus(t, "with the key dropped", second.through(f.all["c"]).call(1, "echo"), 200)
}

func TestADrainingOwnerServesItsSessions(t *testing.T) {
	f := newFleet(t, nil, "a", "b")
	owner := f.all["a"]
	c := openSession(t, owner.ts, "2025-11-25").through(f.all["b"])
	wantStatus(t, "before", c.call(1, "echo"), 200)
	drained := make(chan error, 1)
	go func() { drained <- owner.h.Drain(t.Context()) }()
	for { // until the owner refuses new sessions
		got := do(t, owner.ts, "POST", (&legacyClient{TB: t}).header(),
			initializeBody("2025-11-25"))
		if got.status == 503 {
			break
		}
		c := newClient(t, owner.ts, "")
		c.session = got.header.Get("Mcp-Session-Id")
		c.do(t.Context(), "DELETE", "").Body.Close()
	}
	f.move("a", "") // directories forget replicas that are about to end
	wantStatus(t, "while it drains", c.call(1, "echo"), 200)
	f.forgetTicket(owner, c)
	wantStatus(t, "on another ticket", c.call(1, "echo"), 200)
	f.start("a", servertest.NewKeyring("k1"), nil) // a new process with that name
	f.forgetTicket(owner, c)
	wantStatus(t, "with a successor", c.call(1, "echo"), 200)
	select {
	case err := <-drained:
		t.Fatalf("Drain returned with a session open: %v", err)
	default:
	}
	wantStatus(t, "DELETE", read(t, c.do(t.Context(), "DELETE", "")), 204)
	noError(t, <-drained)
}

func TestDrainEndsWithItsContext(t *testing.T) {
	f := newFleet(t, nil, "a")
	openSession(t, f.all["a"].ts, "2025-11-25")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantIs(t, "the error", f.all["a"].h.Drain(ctx), context.Canceled)
}
