package serverhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestMaxSessionRequests(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	ts, _ := serve(t, srv, &serverhttp.Options{Limits: serverhttp.Limits{RequestsPerSession: 2}})
	c := openSession(t, ts, "2025-03-26")
	var done sync.WaitGroup
	for id := range 2 {
		done.Go(func() { c.call(id, "wait") })
		<-steps.entered
	}
	got := c.call(7, "echo")
	if got.status != 429 || got.header.Get("Retry-After") == "" || got.code() != 23223 ||
		string(got.ID) != "7" {
		t.Errorf("got status %d: %s", got.status, got.body)
	}
	wantStatus(t, "notification",
		read(t, c.post(`{"jsonrpc":"2.0","method":"notifications/unknown"}`)), 202)
	wantRefusal(t, "another session", openSession(t, ts, "2025-03-26").call(7, "echo"), 200, 0)
	steps.permit(2)
	done.Wait()
	batch := `[` + toolCall(1, "echo") + `,` + toolCall(2, "echo") + `,` + toolCall(3, "echo") + `]`
	wantEqual(t, "batch: status", c.post(batch).StatusCode, 429)
	wantRefusal(t, "afterwards", c.call(8, "echo"), 200, 0)
}

// serveDirect serves without a network, for synctest.
func serveDirect(ctx context.Context, h http.Handler, method, session, body string,
	change ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
	r.Header = (&legacyClient{}).header(append(change, "Mcp-Session-Id", session)...)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// openDirect opens a session with serveDirect and returns its id.
func openDirect(ctx context.Context, h http.Handler) string {
	return serveDirect(ctx, h, "POST", "",
		initializeBody("2025-11-25")).Header().Get("Mcp-Session-Id")
}

func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, steps := legacyServer(t, nil)
		h := servertest.NewHandler(t, srv, &serverhttp.Options{SessionTimeout: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		open := func() string { return openDirect(ctx, h) }
		alive := func(session string) bool {
			return serveDirect(ctx, h, "POST", session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).Code == 200
		}
		idle, used, listening, running := open(), open(), open(), open()
		go serveDirect(ctx, h, "GET", listening, "")
		gone, leave := context.WithCancel(ctx)
		go serveDirect(gone, h, "POST", running, toolCall(1, "wait"))
		<-steps.entered
		leave() // the request continues without a connection
		time.Sleep(59 * time.Minute)
		if !alive(used) {
			t.Error("a session expired early")
		}
		time.Sleep(59 * time.Minute)
		wantEqual(t, "after two hours", [...]bool{alive(idle), alive(used),
			serverhttp.Sessions(h) == 3}, [...]bool{false, true, true})
		steps.allow <- struct{}{}
		time.Sleep(59 * time.Minute)
		if !alive(running) || !alive(listening) {
			t.Error("a session expired in which something was going on")
		}
		cancel()
		time.Sleep(61 * time.Minute)
		wantEqual(t, "sessions are open", serverhttp.Sessions(h), 0)
		wantEqual(t, "bytes are kept", serverhttp.EventBytes(h), int64(0))
	})
}

// Events expire although the session continues.
func TestEventsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _ := legacyServer(t, nil)
		h := servertest.NewHandler(t, srv, nil)
		session := openDirect(t.Context(), h)
		serveDirect(t.Context(), h, "POST", session, toolCall(1, "notify"))
		if serverhttp.EventBytes(h) == 0 {
			t.Error("nothing is kept")
		}
		time.Sleep(6 * time.Minute)
		wantEqual(t, "bytes are kept", serverhttp.EventBytes(h), int64(0))
		wantEqual(t, "sessions", serverhttp.Sessions(h), 1)
		noError(t, h.Shutdown(t.Context()))
	})
}

// Requests finish, including questions if people are waited for; then streams and sessions end.
func TestShutdownEndsSessions(t *testing.T) {
	srv, _ := legacyServer(t, &server.Options{ShutdownWaitsForPeople: true})
	ts, h := serve(t, srv, nil)
	c := openSession(t, ts, "2025-11-25")
	get, f := c.listen(""), c.callFlow(1, "elicit")
	question := f.expect("elicitation/create")
	done := make(chan error, 1)
	go func() { done <- h.Shutdown(t.Context()) }()
	get.end()
	if got := c.call(2, "echo"); got.status != 503 || string(got.ID) != "2" {
		t.Errorf("a new request: got status %d: %s", got.status, got.body)
	}
	wantStatus(t, "a new stream", read(t, c.do(t.Context(), "GET", "")), 503)
	wantStatus(t, "a new session",
		read(t, newClient(t, ts, "").post(initializeBody("2025-11-25"))), 503)
	c.answer(question.ID, `{"action":"accept","content":{"name":"Ann"}}`)
	f.expect("accept")
	f.end()
	noError(t, <-done)
	wantEqual(t, "sessions are open", serverhttp.Sessions(h), 0)
}

// Widely used clients start over only after a 404 with "code":-32001 and "Session not found".
func TestLostSessionIsRecognized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const want = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`
		srv, steps := legacyServer(t, nil)
		opts := &serverhttp.Options{Authenticate: byBearer}
		lasting, _ := servePipes(t, srv, opts)
		brief := *opts
		brief.SessionTimeout = time.Minute
		expiring, h := servePipes(t, srv, &brief)
		lose := map[string]func(c *legacyClient){
			"unknown":    func(c *legacyClient) { c.session = "x" },
			"somebody's": func(c *legacyClient) { c.bearer = "bob" },
			"deleted":    func(c *legacyClient) { read(t, c.do(t.Context(), "DELETE", "")) },
			"expired": func(c *legacyClient) {
				c.ts, c.session = expiring, ""
				opened := read(t, c.post(initializeBody(c.version)))
				c.session = opened.header.Get("Mcp-Session-Id")
				time.Sleep(time.Hour)
				if n := serverhttp.Sessions(h); n != 0 {
					t.Fatalf("%d sessions have not expired", n)
				}
			},
			"deleted in use": func(c *legacyClient) {
				done := make(chan *reply, 1)
				go func() { done <- read(t, c.post(toolCall(1, "wait"))) }()
				<-steps.entered
				read(t, c.do(t.Context(), "DELETE", ""))
				if got := <-done; got.status != 404 || got.body != want ||
					got.header.Get("Rondo-Outcome") == "" {
					t.Errorf("%s, the request that ran: got status %d: %s", c.version, got.status,
						got.body)
				}
				<-steps.ended
			},
		}
		for _, version := range legacyVersions {
			for how, lose := range lose {
				c := newClient(t, lasting, "ann")
				c.version = version
				c.initialize()
				lose(c)
				for name, request := range map[string][]string{
					"request":      {"POST", toolCall(1, "echo")},
					"batch":        {"POST", `[` + pingRequest(1) + `,` + pingRequest(2) + `]`},
					"notification": {"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
					"answer":       {"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`},
					"GET":          {"GET", ""},
					"resume":       {"GET", "", "Last-Event-ID", "t-1-1"},
					"DELETE":       {"DELETE", ""},
				} {
					got := read(t, c.do(t.Context(), request[0], request[1], request[2:]...))
					if got.status != 404 || got.body != want ||
						got.header.Get("Rondo-Outcome") != "" || // nothing ran
						got.header.Get("Content-Type") != "application/json" {
						t.Errorf("%s, %s session, %s: got status %d: %s", version, how, name,
							got.status, got.body)
					}
				}
				lost := c.session
				c.initialize() // with the lost id in its header
				if got := c.call(1, "echo"); got.status != 200 || c.session == lost {
					t.Errorf("%s, %s session, initialize anew: got status %d in session %q: %s",
						version, how, got.status, c.session, got.body)
				}
			}
		}
	})
}

// byBearer uses the bearer token as the name; without one the caller is anonymous.
func byBearer(r *http.Request) (protocol.Principal, error) {
	return protocol.Principal{Subject: r.Header.Get("Authorization")}, nil
}

func isAnn(*http.Request) (protocol.Principal, error) {
	return protocol.Principal{Subject: "ann"}, nil
}

// openings opens sessions as name until one is refused, up to most.
func openings(t *testing.T, ts *httptest.Server, name string,
	most int) (open []*legacyClient) {
	t.Helper()
	for range most {
		c := newClient(t, ts, name)
		got := read(t, c.post(initializeBody("2025-11-25")))
		if got.status != 200 {
			if got.status != 503 || got.header.Get("Retry-After") == "" || got.code() != 23223 ||
				string(got.ID) != "0" || !strings.Contains(got.body, `"retryAfterMs":`) {
				t.Errorf("%s: got status %d, Retry-After %q: %s", name, got.status,
					got.header.Get("Retry-After"), got.body)
			}
			break
		}
		c.session = got.header.Get("Mcp-Session-Id")
		open = append(open, c)
	}
	return open
}

// A principal's sessions are limited; others can open more.
func TestSessionsOfOnePrincipal(t *testing.T) {
	for _, tc := range []struct {
		name      string
		opts      serverhttp.Options
		ann, anon int // sessions of Ann, then anonymous ones
	}{
		{"default", serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 8}}, 2, 6},
		{"few", serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 3}}, 1, 2},
		{"set", serverhttp.Options{Authenticate: byBearer, Limits: serverhttp.Limits{Sessions: 8,
			SessionsPerPrincipal: 5}},
			5, 3},
		{"all", serverhttp.Options{Authenticate: byBearer, Limits: serverhttp.Limits{Sessions: 4,
			SessionsPerPrincipal: 4}},
			4, 0},
		{"more than there are", serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 4,
				SessionsPerPrincipal: 9}}, 4, 0},
		{"anonymous", serverhttp.Options{Limits: serverhttp.Limits{Sessions: 8}}, 8, 0},
		{"anonymous, set", serverhttp.Options{Limits: serverhttp.Limits{Sessions: 8,
			SessionsPerPrincipal: 3}}, 8, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, _ := legacyServer(t, nil)
			ts, _ := serve(t, srv, &tc.opts)
			ann := openings(t, ts, "ann", 20)
			if len(ann) != tc.ann {
				t.Fatalf("one principal opened %d sessions, want %d", len(ann), tc.ann)
			}
			wantEqual(t, "sessions of others", len(openings(t, ts, "", 20)), tc.anon)
			for _, c := range ann {
				wantRefusal(t, "a session that was open", c.call(1, "echo"), 200, 0)
			}
			read(t, ann[0].do(t.Context(), "DELETE", ""))
			wantEqual(t, "sessions after one was deleted", len(openings(t, ts, "ann", 20)), 1)
		})
	}
}

// A failed initialize frees its room, and concurrent sessions are counted before they are open.
func TestRefusedSessionsTakeNoShare(t *testing.T) {
	var broken atomic.Bool
	fail := before(func(context.Context, *server.Request) error {
		if broken.Load() {
			return protocol.Errorf(protocol.CodeBusy, "not now")
		}
		return nil
	})
	srv, _ := legacyServer(t, &server.Options{Middleware: fail})
	ts, _ := serve(t, srv, &serverhttp.Options{Authenticate: byBearer,
		Limits: serverhttp.Limits{Sessions: 8}})
	broken.Store(true)
	for range 5 {
		got := read(t, newClient(t, ts, "ann").post(initializeBody("2025-11-25")))
		if got.code() != protocol.CodeBusy || !strings.Contains(got.body, "not now") {
			t.Errorf("got status %d: %s", got.status, got.body)
		}
	}
	broken.Store(false)
	var mu sync.Mutex
	open := 0
	var all sync.WaitGroup
	for range 10 { // concurrently
		all.Go(func() {
			got := read(t, newClient(t, ts, "ann").post(initializeBody("2025-11-25")))
			mu.Lock()
			defer mu.Unlock()
			if got.status == 200 {
				open++
			}
		})
	}
	all.Wait()
	wantEqual(t, "sessions are open", open, 2)
}

func TestExpiredSessionsFreeTheirShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _ := legacyServer(t, nil)
		h := servertest.NewHandler(t, srv, &serverhttp.Options{
			Authenticate: isAnn,
			Limits:       serverhttp.Limits{SessionsPerPrincipal: 1}, SessionTimeout: time.Hour,
		})
		open := func() int {
			return serveDirect(t.Context(), h, "POST", "",
				initializeBody("2025-11-25")).Code
		}
		wantEqual(t, "got status", [...]int{open(), open()}, [...]int{200, 503})
		time.Sleep(61 * time.Minute)
		wantEqual(t, "after an hour: got status", [...]int{open(), open()}, [...]int{200, 503})
		wantEqual(t, "principals are known", serverhttp.Owners(h), 1)
		noError(t, h.Shutdown(t.Context()))
		wantEqual(t, "principals are known after the end", serverhttp.Owners(h), 0)
	})
}

type eventList struct {
	mu     sync.Mutex
	events []event.Event
}

func (o *eventList) Observe(_ context.Context, e event.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func eventsOf[T event.Event](o *eventList) (list []T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e, ok := e.(T); ok {
			list = append(list, e)
		}
	}
	return list
}

// table opens sessions without a network, for synctest.
type table struct {
	*testing.T
	h      http.Handler
	events *eventList
	steps  *steps
}

func newTable(t *testing.T, opts serverhttp.Options) *table {
	events := &eventList{}
	srv, steps := legacyServer(t, &server.Options{Observer: events})
	h := servertest.NewHandler(t, srv, &opts)
	t.Cleanup(func() { h.Shutdown(context.Background()) })
	return &table{t, h, events, steps}
}

func (tb *table) do(ctx context.Context,
	method, name, session, body string) *httptest.ResponseRecorder {
	return serveDirect(ctx, tb.h, method, session, body, "Authorization", name)
}

// open opens a session for name, or returns "" and when to retry.
func (tb *table) open(name string) (session string, after time.Duration) {
	return tb.openWith(name, initializeBody("2025-11-25"))
}

func (tb *table) openWith(name, initialize string) (session string, after time.Duration) {
	tb.Helper()
	w := tb.do(tb.Context(), "POST", name, "", initialize)
	if w.Code == 200 {
		return w.Header().Get("Mcp-Session-Id"), 0
	}
	var got struct {
		Error struct {
			Code int64
			Data struct{ RetryAfterMs int64 }
		}
	}
	err := json.Unmarshal(w.Body.Bytes(), &got)
	after = time.Duration(got.Error.Data.RetryAfterMs) * time.Millisecond
	if err != nil || w.Code != 503 || got.Error.Code != protocol.CodeBusy ||
		w.Header().Get("Retry-After") != fmt.Sprint(after.Seconds()) {
		tb.Errorf("%s: got status %d, Retry-After %q: %s", name, w.Code,
			w.Header().Get("Retry-After"), w.Body)
	}
	return "", after
}

// status returns the status of a ping.
func (tb *table) status(name, session string) int {
	return tb.do(tb.Context(), "POST", name, session, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).Code
}

// At the limit the longest idle session is evicted after a minute. Its client opens another, and
// the observer gets an event.
func TestTheLongestIdleSessionMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, serverhttp.Options{Limits: serverhttp.Limits{Sessions: 3}})
		first, _ := tb.open("")
		time.Sleep(10 * time.Second)
		second, _ := tb.open("")
		third, _ := tb.open("")
		if s, after := tb.open(""); s != "" || after != 50*time.Second {
			t.Errorf("got session %q and told to come back in %v, want a refusal for 50s", s, after)
		}
		time.Sleep(30 * time.Second)
		tb.status("", first) // now the second is the longest idle
		time.Sleep(30 * time.Second)
		fourth, _ := tb.open("")
		got := [...]int{tb.status("", first), tb.status("", second), tb.status("", third),
			tb.status("", fourth)}
		wantEqual(t, "status of the sessions", got, [...]int{200, 404, 200, 200})
		evicted := eventsOf[event.SessionEvicted](tb.events)
		if len(evicted) != 1 || evicted[0].Idle != time.Minute || evicted[0].Limit != "server" {
			t.Errorf("evictions reported: %+v, want one after a minute", evicted)
		}
		refused := eventsOf[event.RequestRefused](tb.events)
		if len(refused) == 0 || refused[0].Reason != words.RefusedSessions ||
			!strings.Contains(refused[0].Err.Error(), "Limits.Sessions") {
			t.Errorf("refusals reported: %+v, want one that names the option", refused)
		}
	})
}

// A session in use is not evicted, however old its last request.
func TestWhatIsInUseIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, serverhttp.Options{Limits: serverhttp.Limits{Sessions: 2}})
		ctx, cancel := context.WithCancel(t.Context())
		listening, _ := tb.open("")
		running, _ := tb.open("")
		go tb.do(ctx, "GET", "", listening, "")
		gone, leave := context.WithCancel(ctx)
		go tb.do(gone, "POST", "", running, toolCall(1, "wait"))
		<-tb.steps.entered
		leave() // the call continues without a connection
		time.Sleep(20 * time.Minute)
		if s, after := tb.open(""); s != "" || after != time.Minute {
			t.Errorf("got session %q, told to come back in %v", s, after)
		}
		cancel()
		synctest.Wait()
		time.Sleep(time.Minute)
		if s, _ := tb.open(""); s == "" || tb.status("", listening) != 404 ||
			tb.status("", running) != 200 {
			t.Errorf("got session %q; the one without a stream should be gone", s)
		}
		tb.steps.allow <- struct{}{}
		synctest.Wait()
	})
}

// A principal at its share evicts its own sessions, not others'.
func TestAPrincipalMakesRoomForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 2 each, 6 anonymous
		tb := newTable(t, serverhttp.Options{Authenticate: byBearer,
			Limits: serverhttp.Limits{Sessions: 8}})
		bob, _ := tb.open("bob")
		time.Sleep(time.Second)
		ann, _ := tb.open("ann")
		tb.open("ann")
		time.Sleep(time.Minute)
		again, _ := tb.open("ann")
		if got := [...]int{tb.status("bob", bob), tb.status("ann", ann),
			tb.status("ann", again)}; got != [...]int{200, 404, 200} {
			t.Errorf("at the share: got status %v", got)
		}
		time.Sleep(time.Minute)
		for range 5 { // fill up
			tb.open("")
		}
		time.Sleep(time.Minute)
		tb.status("ann", again)
		second, _ := tb.open("bob") // at the total, with an idle session of his own
		wantEqual(t, "at the total: got status",
			[...]int{tb.status("bob", bob), tb.status("bob", second)}, [...]int{404, 200})
		if s, _ := tb.open("carol"); s == "" {
			t.Error("somebody without a session gets none of those that are idle")
		}
		for _, e := range eventsOf[event.SessionEvicted](tb.events) {
			if e.Idle < time.Minute {
				t.Errorf("evicted after %v", e.Idle)
			}
		}
	})
}

// Neither the number of sessions nor their memory can be used up, with defaults.
func TestNoPrincipalFillsTheSessionsForOthers(t *testing.T) {
	large := strings.Replace(initializeBody("2025-11-25"), `"clientInfo"`,
		`"_meta":{"pad":"`+strings.Repeat("x", 15_000)+`"},"clientInfo"`, 1)
	for _, tc := range []struct {
		name, initialize string
		mallory, anon    int
	}{
		{"number", initializeBody("2025-11-25"), 10_000 / 4,
			10_000 * 3 / 4},
		{"bytes", large, 865, 2595},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			tb := newTable(t, serverhttp.Options{Authenticate: byBearer})
			fill := func(name string) (n int) {
				for s, _ := tb.openWith(name, tc.initialize); s != ""; s, _ = tb.openWith(name,
					tc.initialize) {
					n++
				}
				return n
			}
			if n := fill("mallory"); n < tc.mallory || n > tc.mallory+10 {
				t.Errorf("one principal opens %d sessions, want %d", n, tc.mallory)
			}
			if s, _ := tb.open("alice"); s == "" {
				t.Error("alice gets none beside one principal")
			}
			if n := fill(""); n < tc.anon-10 || n > tc.anon+30 {
				t.Errorf("anonymous callers open %d sessions, want %d", n, tc.anon)
			}
		})
	}
}

// A principal's own events are dropped, but undelivered events of other principals stay.
func TestNoPrincipalFillsTheEventsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t, *serverhttp.Tune(&serverhttp.Options{Authenticate: byBearer},
			serverhttp.Tuning{EventBytes: 100_000}))
		say := func(name string) (session, last string) {
			session, _ = tb.open(name)
			w := tb.do(t.Context(), "POST", name, session, toolCall(1, "notify"))
			id, _, _ := strings.Cut(strings.TrimPrefix(
				w.Body.String()[strings.Index(w.Body.String(), "id:"):], "id: "), "\n")
			return session, strings.TrimSpace(id)
		}
		alice, first := say("alice")
		for range 300 {
			say("mallory")
		}
		h := tb.h.(*serverhttp.Handler)
		if n := serverhttp.EventBytes(h); n > 30_000 {
			t.Errorf("one principal keeps %d of 100,000 bytes", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := serveDirect(ctx, tb.h, "GET", alice, "", "Authorization", "alice",
			"Last-Event-Id", first)
		if w.Code != 200 || !strings.Contains(w.Body.String(), "done") {
			t.Errorf("alice resumes with status %d: %s", w.Code, w.Body)
		}
	})
}
