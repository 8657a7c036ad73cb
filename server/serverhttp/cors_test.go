package serverhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// The constant page is the allowed origin.
const page = "https://app.example.com"

// corsHeaders returns the CORS headers of a response.
func corsHeaders(h http.Header) map[string]string {
	found := map[string]string{}
	for name, lines := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			found[name] = strings.Join(lines, "|")
		}
	}
	return found
}

// wantReadable checks that only a page of the listed origin can read a response.
func wantReadable(t *testing.T, what string, got *reply) {
	t.Helper()
	cors := corsHeaders(got.header)
	if cors["Access-Control-Allow-Origin"] != page ||
		cors["Access-Control-Expose-Headers"] != "Mcp-Session-Id, Retry-After, WWW-Authenticate, Rondo-Outcome" {
		t.Errorf("%s: got status %d and CORS headers %v", what, got.status, cors)
	}
	wantPart(t, what, strings.Join(got.header["Vary"], ","), "Origin")
	wantNoCredentials(t, what, got)
}

func wantNoCredentials(t *testing.T, what string, got *reply) {
	t.Helper()
	if c := got.header.Values("Access-Control-Allow-Credentials"); len(c) > 0 ||
		strings.Contains(fmt.Sprint(corsHeaders(got.header)), "*") {
		t.Errorf("%s: got CORS headers %v", what, corsHeaders(got.header))
	}
}

func preflight(origin string, change ...string) http.Header {
	return headers("", "", append([]string{"Content-Type", "", "Accept", "", "Mcp-Protocol-Version",
		"", "Mcp-Method", "",
		"Origin", origin, "Access-Control-Request-Method", "POST"}, change...)...)
}

// A preflight has no credentials and is answered before authentication.
func TestPreflight(t *testing.T) {
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprintf("mcp-param-p%d", i)
	}
	refuse := func(*http.Request) (protocol.Principal, error) {
		return protocol.Principal{}, errors.New("no token")
	}
	const fixed = "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, " +
		"Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id"
	for mode, tt := range map[string]struct {
		srv     *server.Server
		opts    serverhttp.Options
		methods string
	}{
		"sessions":  {newServer(t, nil), serverhttp.Options{}, "GET, POST, DELETE"},
		"stateless": {newServer(t, nil), serverhttp.Options{StatelessLegacy: true}, "POST"},
		"modern": {newServer(t, &server.Options{ModernOnly: true}), serverhttp.Options{},
			"POST"},
	} {
		t.Run(mode, func(t *testing.T) {
			tt.opts.AllowedOrigins, tt.opts.Authenticate = []string{page}, refuse
			ts, _ := serve(t, tt.srv, &tt.opts)
			for _, request := range []struct{ name, asked, want string }{
				{"nothing", "", fixed},
				{"fixed names", "authorization,content-type,mcp-method,mcp-protocol-version", fixed},
				{"parameters", "mcp-param-region, Mcp-Param-User-Id", fixed +
					", mcp-param-region, Mcp-Param-User-Id"},
				{"names never allowed", "cookie,x-api-key,x-forwarded-for,host", fixed},
				{"odd bytes", "mcp-param-a b,mcp-param-é,mcp-param-a;q", fixed},
				{"long name", "mcp-param-" + strings.Repeat("a", 119), fixed},
				{"too many", strings.Join(many, ","), fixed + ", " + strings.Join(many[:80], ", ")},
			} {
				t.Run(request.name, func(t *testing.T) {
					got := do(t, ts, "OPTIONS", preflight(page, "Access-Control-Request-Headers",
						request.asked), "")
					wantReadable(t, mode, got)
					if got.status != 204 || got.body != "" ||
						got.header.Get("Access-Control-Allow-Methods") != tt.methods ||
						got.header.Get("Access-Control-Allow-Headers") != request.want ||
						got.header.Get("Access-Control-Max-Age") != "600" {
						t.Errorf("%s, %.60q: got status %d and CORS headers %v", mode, request.asked,
							got.status, corsHeaders(got.header))
					}
					wantEqual(t, fmt.Sprintf("%s: got Vary", mode), strings.Join(got.header["Vary"],
						","), "Origin,Access-Control-Request-Headers")
				})
			}
			// Credentials with a preflight change nothing.
			wantReadable(t, mode+" with credentials",
				do(t, ts, "OPTIONS",
					preflight(page, "Authorization", "Bearer a", "Cookie", "a=b"), ""))
			// Not a preflight: it needs credentials.
			wantStatus(t, fmt.Sprintf("%s: OPTIONS that asks for nothing", mode),
				do(t, ts, "OPTIONS", preflight(page, "Access-Control-Request-Method", ""), ""), 401)
		})
	}
}

// Unlisted origins learn nothing from a preflight or request.
func TestPreflightOfOthers(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil),
		&serverhttp.Options{AllowedOrigins: []string{page, "http://127.0.0.1:6274"}})
	own := ts.URL
	for name, origins := range map[string][]string{
		"another one":       {"https://evil.example.com"},
		"subdomain":         {"https://x.app.example.com"},
		"null":              {"null"},
		"user of the page":  {"https://user:pw@app.example.com"},
		"the scheme's port": {"https://app.example.com:443"},
		"capitals":          {"https://App.example.com"},
		"two of them":       {page, page},
		"one and another":   {page, "https://evil.example.com"},
		"two in one line":   {page + ", https://evil.example.com"},
		"the same origin":   {own},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{"OPTIONS", "POST", "GET", "DELETE"} {
				h := headers("server/discover", "")
				if method == "OPTIONS" {
					h = preflight("")
				}
				h["Origin"] = origins
				got := do(t, ts, method, h, body("server/discover", ""))
				if cors := corsHeaders(got.header); len(cors) > 0 {
					t.Errorf("%s of %s: got CORS headers %v", method, name, cors)
				}
				wantEqual(t, method+" of "+name+": Vary", got.header.Get("Vary"), "Origin")
				if method == "OPTIONS" && got.status != 403 && got.status != 405 {
					t.Errorf("preflight of %s: got status %d", name, got.status)
				}
			}
		})
	}
	plain, _ := serve(t, newServer(t, nil), nil)
	if got := do(t, plain, "POST", headers("server/discover", ""),
		body("server/discover", "")); got.header["Vary"] != nil ||
		len(corsHeaders(got.header)) > 0 {
		t.Errorf("without AllowedOrigins: got headers %v", got.header)
	}
}

func TestListedNull(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), &serverhttp.Options{AllowedOrigins: []string{"null"}})
	got := do(t, ts, "POST", headers("server/discover", "", "Origin", "null"),
		body("server/discover", ""))
	if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != "null" {
		t.Errorf("got status %d and CORS headers %v", got.status, corsHeaders(got.header))
	}
}

// A listed page can read all refusals: in both eras, as JSON and as a stream.
func TestPagesCanReadRefusals(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	ts, h := serve(t, srv, &serverhttp.Options{
		AllowedOrigins: []string{page}, Limits: serverhttp.Limits{BodyBytes: 1 << 10, Sessions: 1},
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			switch r.Header.Get("Authorization") {
			case "Bearer good":
				return protocol.Principal{Subject: "ann"}, nil
			case "Bearer weak":
				return protocol.Principal{}, &serverhttp.AuthError{Status: 403}
			case "Bearer panic":
				panic("on purpose")
			}
			return protocol.Principal{}, errors.New("unknown token")
		},
	})
	modern := func(change ...string) http.Header {
		return headers("tools/call", "echo",
			append([]string{"Origin", page, "Authorization", "Bearer good"}, change...)...)
	}
	legacy := func(change ...string) http.Header {
		return headers("", "", append([]string{"Origin", page, "Authorization", "Bearer good",
			"Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", ""}, change...)...)
	}
	const echo = `"name":"echo","arguments":{"message":"hi"}`
	initialized := do(t, ts, "POST", legacy(), initializeBody("2025-11-25"))
	wantReadable(t, "initialize", initialized)
	session := initialized.header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("got status %d: %s", initialized.status, initialized.body)
	}
	for _, tt := range []struct {
		name, method string
		header       http.Header
		body         string
		status       int
	}{
		{"a result", "POST", modern(), body("tools/call", echo), 200},
		{"a stream", "POST", modern("Mcp-Name", "notify"),
			body("tools/call", `"name":"notify","arguments":{}`), 200},
		{"no token", "POST", modern("Authorization", ""), body("tools/call", echo), 401},
		{"a weak token", "POST", modern("Authorization", "Bearer weak"), body("tools/call", echo),
			403},
		{"a panic", "POST", modern("Authorization", "Bearer panic"), body("tools/call", echo), 500},
		{"another host", "POST", modern("Host", "evil.example.com"), body("tools/call", echo), 403},
		{"a preflight for another host", "OPTIONS", preflight(page, "Host", "evil.example.com"), "",
			403},
		{"no such method", "POST", headers("x", "", "Origin", page, "Authorization", "Bearer good"),
			body("x", ""), 404},
		{"PUT", "PUT", modern(), "", 405},
		{"not acceptable", "POST", modern("Accept", "text/html"), body("tools/call", echo), 406},
		{"too large", "POST", modern(), strings.Repeat(" ", 2<<10), 413},
		{"wrong type", "POST", modern("Content-Type", "text/plain"), body("tools/call", echo), 415},
		{"no JSON", "POST", modern(), "{", 400},
		{"a legacy result", "POST", legacy("Mcp-Session-Id", session), toolCall(1, "echo"), 200},
		{"a legacy stream", "POST", legacy("Mcp-Session-Id", session), toolCall(2, "notify"), 200},
		{"no session", "POST", legacy(), toolCall(3, "echo"), 400},
		{"a lost session", "POST", legacy("Mcp-Session-Id", "x"), toolCall(4, "echo"), 404},
		{"a lost session, GET", "GET", legacy("Mcp-Session-Id", "x"), "", 404},
		{"too many sessions", "POST", legacy(), initializeBody("2025-11-25"), 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := do(t, ts, tt.method, tt.header, tt.body)
			wantStatus(t, tt.name, got, tt.status)
			wantReadable(t, tt.name, got)
		})
	}
	noError(t, h.Shutdown(t.Context()))
	got := do(t, ts, "POST", modern(), body("tools/call", echo))
	wantStatus(t, "after the shutdown", got, 503)
	wantReadable(t, "after the shutdown", got)
}

// Headers of a wrapping handler do not duplicate ours.
func TestCORSBesideWrapper(t *testing.T) {
	inner := servertest.NewHandler(t, newServer(t, nil),
		&serverhttp.Options{AllowedOrigins: []string{page}})
	ts := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Vary", "Accept-Encoding")
		inner.ServeHTTP(w, r)
	}))
	got := do(t, ts, "POST", headers("server/discover", "", "Origin", page),
		body("server/discover", ""))
	wantReadable(t, "wrapped", got)
	wantEqual(t, "got Vary", strings.Join(got.header["Vary"], ","), "Accept-Encoding,Origin")
}

func TestOriginsThatNeverMatch(t *testing.T) {
	srv := newServer(t, nil)
	for _, origin := range []string{
		"*", "https://*.example.com", "app.example.com", "https://", "https://app.example.com/",
		"https://app.example.com:443",
		"http://app.example.com:80", "https://App.example.com", "HTTPS://app.example.com",
		"https://app.example.com:",
		"https://user@app.example.com", "https://bücher.example", "Null", "",
	} {
		_, err := serverhttp.New(srv, &serverhttp.Options{AllowedOrigins: []string{origin}})
		if text := fmt.Sprint(err); !strings.Contains(text, "AllowedOrigins") ||
			!strings.Contains(text, fmt.Sprintf("%q", origin)) {
			t.Errorf("%q: got %s, want an error that names it", origin, text)
		}
	}
	servertest.NewHandler(t, srv,
		&serverhttp.Options{AllowedOrigins: []string{"http://localhost:6274",
			"https://[::1]:8443", "chrome-extension://abcdef", "null"}})
}
