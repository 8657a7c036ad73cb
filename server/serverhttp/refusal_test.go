package serverhttp_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/internal/words"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

type refusals struct {
	mu   sync.Mutex
	list []event.RequestRefused
}

func (o *refusals) Observe(ctx context.Context, happened event.Event) {
	e, ok := happened.(event.RequestRefused)
	if !ok {
		return
	}
	if ctx.Value(http.ServerContextKey) == nil {
		panic("not the context of the request")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, e)
}

func (o *refusals) take() []event.RequestRefused {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = nil
	return list
}

// errRevoked is an error of an authentication hook.
var errRevoked = errors.New("the key is revoked")

// The function observed returns an endpoint with small limits, its observer, and a request count.
func observed(t *testing.T) (*legacyClient, *refusals, func() int, *serverhttp.Handler) {
	seen := &refusals{}
	var passed atomic.Int32
	count := before(func(context.Context, *server.Request) error { passed.Add(1); return nil })
	srv, steps := legacyServer(t, &server.Options{Observer: seen, Middleware: count})
	ts, h := serve(t, srv, &serverhttp.Options{
		Limits: serverhttp.Limits{BodyBytes: 32 << 10, Sessions: 2, SessionsPerPrincipal: 1,
			RequestsPerSession: 1},
		AllowedHosts: []string{"localhost"},
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			switch token := r.Header.Get("Authorization"); token {
			case "ann", "bob":
				return protocol.Principal{Subject: token}, nil
			case "weak":
				return protocol.Principal{},
					&serverhttp.AuthError{Status: 403, Err: fmt.Errorf("scope: %w", errRevoked)}
			case "nil":
				return protocol.Principal{}, (*serverhttp.AuthError)(nil)
			default:
				if name, password, ok := r.BasicAuth(); ok {
					return protocol.Principal{},
						fmt.Errorf("password %s of %s: %w", password, name, errRevoked)
				}
				return protocol.Principal{},
					fmt.Errorf("token %q of cookie %v, forwarded %s: %w", token, r.Cookies(),
						r.Header.Get("X-Forwarded-Access-Token"), errRevoked)
			}
		},
	})
	go func() {
		for {
			select {
			case steps.allow <- struct{}{}:
			case <-t.Context().Done():
				return
			}
		}
	}()
	c := newClient(t, ts, "ann")
	c.version = "2025-03-26"
	c.initialize()
	return c, seen, func() int { return int(passed.Swap(0)) }, h
}

// Only refusals before middleware are reported, each once, with the reason and advice.
func TestRefusalsAreObserved(t *testing.T) {
	c, seen, passed, h := observed(t)
	modern := func(change ...string) []string {
		return append([]string{"Mcp-Session-Id", "", "Mcp-Protocol-Version", "2026-07-28",
			"Mcp-Method", "tools/list"}, change...)
	}
	const listed = `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta + `}}`
	type refused struct {
		reason event.RefusalReason
		code   int64
		id     string
		text   string // part of the cause
	}
	passed()
	for _, tt := range []struct {
		name, method, body string
		change             []string
		status             int
		want               refused // without a reason if the transport serves it
	}{
		{"served", "POST", listed, modern(), 200, refused{}},
		{"refused by the server", "POST", listed, modern("Mcp-Method", "x"), 400, refused{}},
		{"no such tool", "POST", toolCall(1, "x"), nil, 200, refused{}},
		{"host", "POST", listed, modern("Host", "evil.example.com"), 403,
			refused{"host", -32600, "", "AllowedHosts"}},
		{"origin", "POST", listed, modern("Origin", "https://evil.example.com"), 403,
			refused{"origin", -32600, "", "AllowedOrigins"}},
		{"origin, named", "POST", listed, modern("Origin", "https://evil.example.com"), 403,
			refused{"origin", -32600, "", `Origin "https://evil.example.com"`}},
		{"preflight", "OPTIONS", "",
			modern("Origin", "https://evil.example.com", "Access-Control-Request-Method", "POST"),
			403, refused{"origin", -32600, "", ""}},
		{"token", "POST", listed, modern("Authorization", "stale"), 401,
			refused{"unauthenticated", -32600, "", "Options.Authenticate"}},
		{"scope", "POST", listed, modern("Authorization", "weak"), 403,
			refused{"forbidden", -32600, "", "scope: the key is revoked"}},
		{"nil error", "POST", listed, modern("Authorization", "nil"), 401,
			refused{"unauthenticated", -32600, "", "Unauthorized"}},
		{"method", "PUT", listed, modern(), 405, refused{"http_method", -32600, "", "POST"}},
		{"media type", "POST", listed, modern("Content-Type", "text/plain"), 415,
			refused{"media_type", -32600, "", "Content-Type"}},
		{"coding", "POST", listed, modern("Content-Encoding", "gzip"), 415,
			refused{"media_type", -32600, "", "Content-Encoding"}},
		{"accept", "POST", listed, modern("Accept", "text/html"), 406,
			refused{"accept", -32600, "", "Accept"}},
		{"too large", "POST", strings.Repeat(" ", 33<<10), modern(), 413,
			refused{"too_large", -32600, "", "Limits.BodyBytes"}},
		{"no JSON", "POST", "{", modern(), 400, refused{"malformed", -32700, "", ""}},
		{"no message", "POST", `{"jsonrpc":"2.0","id":7,"method":1}`, modern(), 400,
			refused{"malformed", -32600, "7", "method"}},
		{"an answer", "POST", `{"jsonrpc":"2.0","id":7,"result":{}}`, modern(), 400,
			refused{"malformed", -32600, "", "responses"}},
		{"notification of another version", "POST", `{"jsonrpc":"2.0","method":"x"}`,
			modern("Mcp-Protocol-Version", "2099-01-01"), 400, refused{"version", -32022, "", ""}},
		{"notification of another method", "POST", `{"jsonrpc":"2.0","method":"x"}`,
			modern("Mcp-Method", "y"), 400, refused{"header_mismatch", -32020, "", "Mcp-Method"}},
		{"GET of another version", "GET", "", []string{"Mcp-Protocol-Version", "2099-01-01"}, 400,
			refused{"version", -32022, "", ""}},
		{"no session", "POST", pingRequest(3), []string{"Mcp-Session-Id", ""}, 400,
			refused{"no_session", -32600, "3", "Mcp-Session-Id"}},
		{"lost session", "POST", pingRequest(3), []string{"Mcp-Session-Id", "x"}, 404,
			refused{"session_gone", -32001, "3", "SessionTimeout"}},
		{"lost session without replicas", "POST", pingRequest(3), []string{"Mcp-Session-Id", "x"},
			404, refused{"session_gone", -32001, "3", "serverhttp.Options.Replicas is not set"}},
		{"lost session, GET", "GET", "", []string{"Mcp-Session-Id", "x"}, 404,
			refused{"session_gone", -32001, "", "serverhttp.Options.Replicas is not set"}},
		{"lost session, DELETE", "DELETE", "", []string{"Mcp-Session-Id", "x"}, 404,
			refused{"session_gone", -32001, "", "serverhttp.Options.Replicas is not set"}},
		{"headers", "POST", toolCall(3, "echo"), []string{"Mcp-Name", "safe"}, 400,
			refused{"header_mismatch", -32600, "3", "Mcp-Name"}},
		{"event", "GET", "", []string{"Last-Event-ID", "x"}, 400,
			refused{"event_id", -32600, "", "been evicted"}},
		{"broken batch", "POST", `[1,2,3,{"jsonrpc":"2.0","id":5}]`, nil, 200,
			refused{"malformed", -32600, "", ""}},
		{"too many requests", "POST", `[` + toolCall(1, "wait") + `,` + toolCall(2, "wait") + `]`,
			nil, 429, refused{"too_many_requests", protocol.CodeBusy, "",
				"Limits.RequestsPerSession"}},
		{"long initialize", "POST", strings.Replace(initializeBody("2025-11-25"), `"version":"1"`,
			`"version":"`+strings.Repeat("1", 17<<10)+`"`, 1),
			[]string{"Mcp-Session-Id", ""}, 413, refused{"too_large", -32602, "0", ""}},
		{"a second session", "POST", initializeBody("2025-11-25"), []string{"Mcp-Session-Id", ""},
			503, refused{"too_many_sessions", protocol.CodeBusy, "0",
				"Limits.SessionsPerPrincipal"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen.take()
			passed()
			r := newRequest(t, c.ts, tt.method, c.header(tt.change...), tt.body)
			response, err := c.ts.Client().Do(r)
			noError(t, err)
			response.Body.Close()
			wantEqual(t, "got status", response.StatusCode, tt.status)
			got := seen.take()
			if tt.want.reason == "" {
				if len(got) != 0 || passed() != 1 {
					t.Errorf("got events %+v of a request that passes the middleware", got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("got events %+v, want one", got)
			}
			e := got[0]
			host, _, err := net.SplitHostPort(e.RemoteAddr)
			if e.Transport != "http" || e.Status != tt.status || e.Reason != tt.want.reason ||
				e.RequestID != tt.want.id ||
				host != "127.0.0.1" || err != nil || e.Err == nil ||
				!strings.Contains(e.Err.Error(), tt.want.text) {
				t.Errorf("got %+v, want %+v", e, tt.want)
			}
			wantEqual(t, "got code", e.Code, tt.want.code)
			roomy := e.Code == protocol.CodeBusy
			if roomy != (e.Principal == protocol.Principal{Subject: "ann"}) {
				t.Errorf("got principal %v of reason %s", e.Principal, e.Reason)
			}
			wantEqual(t, "requests passed the middleware", passed(), 0)
		})
	}
	seen.take()
	noError(t, h.Shutdown(t.Context()))
	for _, body := range []string{listed, initializeBody("2025-11-25")} {
		change := modern()
		if body != listed {
			change = []string{"Mcp-Session-Id", ""}
		}
		read(t, c.post(body, change...))
		if got := seen.take(); len(got) != 1 || got[0].Reason != words.RefusedClosing ||
			got[0].Status != 503 {
			t.Errorf("after the shutdown: got events %+v", got)
		}
	}
}

// Events do not contain a request's secrets, however the hook quotes them.
func TestRefusalsTellNoSecrets(t *testing.T) {
	c, seen, _, _ := observed(t)
	const token, cookie, session = "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl",
		"5ecret-c00kie", "5ecret-5e55ion"
	for name, change := range map[string][]string{
		"token": {"Authorization", token},
		"password": {"Authorization", "Basic " +
			base64.StdEncoding.EncodeToString([]byte("ann:5ecret"))},
		"token and cookie":      {"Authorization", token, "Cookie", "sid=" + cookie},
		"cookie alone":          {"Authorization", "", "Cookie", "sid=" + cookie + "; lang=en"},
		"token of a proxy":      {"Authorization", "", "X-Forwarded-Access-Token", "5ecret-t0ken"},
		"session":               {"Mcp-Session-Id", session},
		"origin with user":      {"Origin", "https://ann:5ecret-c00kie@app.example.com"},
		"name of a private URI": {"Mcp-Name", "doc://a?token=5ecret-c00kie"},
	} {
		t.Run(name, func(t *testing.T) {
			read(t, c.post(toolCall(1, "echo"), change...))
			got := seen.take()
			if len(got) != 1 {
				t.Errorf("%s: got events %+v, want one", name, got)
				return
			}
			text := fmt.Sprintf("%+v %v %q %s", got[0], got[0], got[0].Err, got[0].RequestID)
			for _, part := range []string{"eyJhbGci", "eyJzdWIi", "c2lnbmF0", "5ecret"} {
				wantNoPart(t, name, text, part)
			}
			if got[0].Reason == words.RefusedUnauthenticated &&
				(!errors.Is(got[0].Err, errRevoked) ||
					!strings.Contains(text, "the key is revoked")) {
				t.Errorf("%s: the cause is lost: %s", name, text)
			}
		})
	}
}

// A panicking observer costs no response.
func TestObserverPanics(t *testing.T) {
	srv := newServer(t, &server.Options{Observer: panicsOn[event.RequestRefused]("on purpose")})
	ts, _ := serve(t, srv, nil)
	wantStatus(t, "the answer", do(t, ts, "PUT", headers("", ""), ""), 405)
}

// Refusing a request allocates little besides its headers.
func TestRefusalIsCheap(t *testing.T) {
	const size, most = 512 << 10, 64 << 10
	var words strings.Builder
	for i := range size / 6 {
		fmt.Fprintf(&words, "token%d", i)
	}
	long := errors.New(words.String())
	srv := newServer(t, &server.Options{Observer: &refusals{}})
	h := servertest.NewHandler(t, srv, &serverhttp.Options{
		AllowedOrigins: []string{page},
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			return protocol.Principal{}, long
		},
	})
	for name, prepare := range map[string]func(r *http.Request){
		"long error": func(*http.Request) {},
		"token": func(r *http.Request) {
			r.Header.Set("Authorization", "Basic "+
				strings.Repeat("YTph", size/4))
		},
		"cookies": func(r *http.Request) {
			r.Header.Set("Cookie",
				strings.Repeat("a=b;", size/4))
		},
		"query": func(r *http.Request) { r.URL.RawQuery = strings.Repeat("a=b&", size/4) },
		"foreign origin": func(r *http.Request) {
			r.Header.Set("Origin", "https://"+
				strings.Repeat("a", size))
		},
		"host": func(r *http.Request) {
			r.Header.Set("Origin",
				"http://a")
			r.Host = strings.Repeat("a", size)
		},
		"preflight": func(r *http.Request) {
			r.Method = "OPTIONS"
			r.Header.Set("Origin", page)
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", strings.Repeat("mcp-param-a,", size/12))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/", strings.NewReader("{}"))
			r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{}))
			prepare(r)
			h.ServeHTTP(httptest.NewRecorder(), r)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			const times = 10
			for range times {
				h.ServeHTTP(httptest.NewRecorder(), r)
			}
			runtime.ReadMemStats(&after)
			if each := (after.TotalAlloc - before.TotalAlloc) / times; each > most {
				t.Errorf("%s: refusing %d bytes allocates %d, want at most %d", name, size, each, most)
			}
		})
	}
}

// Middleware sees the sender of a request with contradicting headers, including its secrets.
func TestRefusedRequestsKeepTheirSender(t *testing.T) {
	var got *server.Request
	keep := before(func(_ context.Context, r *server.Request) error { got = r; return nil })
	ts, _ := serve(t, newServer(t, &server.Options{Middleware: keep}), nil)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	h := headers(protocol.MethodListPrompts, "", // contradicts the body
		"Authorization", "Bearer secret", "Traceparent", trace)
	answer := do(t, ts, "POST", h, body(protocol.MethodListTools, ""))
	if answer.status != http.StatusBadRequest || got == nil {
		t.Fatalf("got status %d and the request %v, want a refusal", answer.status, got)
	}
	if got.RemoteAddr == "" || got.TraceParent != trace || got.Credential != "Bearer secret" {
		t.Errorf("got %q, %q, %q, want address, trace and credential",
			got.RemoteAddr, got.TraceParent, got.Credential)
	}
}
