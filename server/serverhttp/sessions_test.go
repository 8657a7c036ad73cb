package serverhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
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
	if got := c.post(batch); got.StatusCode != 429 {
		t.Errorf("batch: got status %d", got.StatusCode)
	}
	wantRefusal(t, "afterwards", c.call(8, "echo"), 200, 0)
}

// serveDirect has h answer without a network, so that time can be the test's.
func serveDirect(ctx context.Context, h http.Handler, method, session, body string,
	change ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
	r.Header = (&legacyClient{}).header(append(change, "Mcp-Session-Id", session)...)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// openDirect opens a session as serveDirect does, and returns its id.
func openDirect(ctx context.Context, h http.Handler) string {
	return serveDirect(ctx, h, "POST", "",
		initializeBody("2025-11-25")).Header().Get("Mcp-Session-Id")
}

// TestIdleTimeout holds when sessions expire, and when not.
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
		leave() // the request goes on without a connection
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
		wantEqual(t, "bytes are kept", serverhttp.EventBytes(h), 0)
	})
}

// TestEventsAge holds that what was said is given up in time although the session goes on.
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
		wantEqual(t, "bytes are kept", serverhttp.EventBytes(h), 0)
		if serverhttp.Sessions(h) != 1 {
			t.Error("the session expired")
		}
		noError(t, h.Shutdown(t.Context()))
	})
}

// TestShutdownEndsSessions holds that requests are finished, with their questions answered where
// people are waited for, streams end and sessions are gone.
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

// TestLostSessionIsRecognized: clients that are widely used start over only when
// a 404 says "code":-32001 and "Session not found", whatever they had sent.
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
				c.initialize() // with the lost id still in its header
				if got := c.call(1, "echo"); got.status != 200 || c.session == lost {
					t.Errorf("%s, %s session, initialize anew: got status %d in session %q: %s",
						version, how, got.status, c.session, got.body)
				}
			}
		}
	})
}
