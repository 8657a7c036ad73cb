package serverhttp_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestSource covers who may address the endpoint, from pages and otherwise.
// local is the address that the connection was made to.
func TestSource(t *testing.T) {
	const loopback, lan = "127.0.0.1:8080", "192.0.2.1:8080"
	none := &serverhttp.Options{}
	open := &serverhttp.Options{
		AllowedOrigins: []string{"https://app.example.com", "chrome-extension://abcdef", "null"},
		AllowedHosts:   []string{"MCP.example.com", "2001:db8::1", "192.0.2.1"},
	}
	tests := []struct {
		name   string
		opts   *serverhttp.Options
		local  string
		host   string
		origin []string
		want   bool
	}{
		{"localhost", none, loopback, "localhost:8080", nil, true},
		{"localhost without port", none, loopback, "localhost", nil, true},
		{"localhost in capitals", none, loopback, "LocalHost:1", nil, true},
		{"127.0.0.1", none, loopback, "127.0.0.1:8080", nil, true},
		{"127.1.2.3", none, loopback, "127.1.2.3", nil, true},
		{"::1", none, "[::1]:8080", "[::1]:8080", nil, true},
		{"::1 without port", none, "[::1]:8080", "[::1]", nil, true},
		{"mapped", none, loopback, "[::ffff:127.0.0.1]:8080", nil, true},
		{"rebound name", none, loopback, "evil.example.com:8080", nil, false},
		{"rebound name with its own origin", none, loopback, "evil.example.com", []string{"http://evil.example.com"}, false},
		{"name that starts like localhost", none, loopback, "localhost.evil.example.com", nil, false},
		{"name that ends like localhost", none, loopback, "evil-localhost", nil, false},
		{"address within a name", none, loopback, "127.0.0.1.example.com", nil, false},
		{"user information", none, loopback, "localhost@evil.example.com", nil, false},
		{"two ports", none, loopback, "localhost:80:80", nil, false},
		{"port not a number", none, loopback, "localhost:http", nil, false},
		{"no host", none, loopback, "", nil, false},
		{"brackets without address", none, loopback, "[localhost]", nil, false},
		{"unclosed bracket", none, loopback, "[::1", nil, false},
		{"short address", none, loopback, "127.1", nil, false},
		{"any name elsewhere", none, lan, "anything.example.com", nil, true},
		{"listed on loopback", open, loopback, "mcp.example.com:8080", nil, true},
		{"loopback beside a list", open, loopback, "localhost", nil, true},
		{"listed elsewhere", open, lan, "mcp.EXAMPLE.com", nil, true},
		{"listed address", open, lan, "192.0.2.1:8080", nil, true},
		{"listed IPv6 address", open, lan, "[2001:DB8::1]:8080", nil, true},
		{"unlisted elsewhere", open, lan, "evil.example.com", nil, false},
		{"loopback name elsewhere", open, lan, "localhost", nil, false},

		{"same origin", none, lan, "mcp.example.com", []string{"https://mcp.example.com"}, true},
		{"same origin with port", none, lan, "mcp.example.com:8443", []string{"https://mcp.example.com:8443"}, true},
		{"same origin, default port", none, lan, "mcp.example.com:443", []string{"https://mcp.example.com"}, true},
		{"same origin behind a proxy", none, lan, "mcp.example.com", []string{"http://mcp.example.com"}, true},
		{"same host, other port", none, lan, "mcp.example.com", []string{"https://mcp.example.com:8443"}, false},
		{"same host, port of the other scheme", none, lan, "mcp.example.com:80", []string{"https://mcp.example.com"}, false},
		{"other origin", none, lan, "mcp.example.com", []string{"https://evil.example.com"}, false},
		{"suffix", none, lan, "mcp.example.com", []string{"https://mcp.example.com.evil.com"}, false},
		{"prefix", none, lan, "mcp.example.com", []string{"https://evilmcp.example.com"}, false},
		{"path", none, lan, "mcp.example.com", []string{"https://mcp.example.com/x"}, false},
		{"user", none, lan, "mcp.example.com", []string{"https://mcp.example.com@evil.com"}, false},
		{"extension of the same host", none, lan, "abcdef", []string{"chrome-extension://abcdef"}, false},
		{"loopback to loopback", none, loopback, "127.0.0.1:8080", []string{"http://localhost:6274"}, true},
		{"loopback to a published port", none, lan, "localhost:8080", []string{"http://localhost:6274"}, true},
		{"loopback to elsewhere", none, lan, "mcp.example.com", []string{"http://localhost:6274"}, false},
		{"elsewhere to loopback", none, loopback, "localhost:8080", []string{"http://evil.example.com"}, false},
		{"null", none, loopback, "localhost", []string{"null"}, false},
		{"empty", none, loopback, "localhost", []string{""}, false},
		{"two origins", none, loopback, "localhost", []string{"http://localhost", "http://localhost"}, false},
		{"no scheme", none, loopback, "localhost", []string{"localhost"}, false},
		{"listed", open, loopback, "localhost", []string{"https://app.example.com"}, true},
		{"listed with another port", open, loopback, "localhost", []string{"https://app.example.com:444"}, false},
		{"listed with another scheme", open, loopback, "localhost", []string{"http://app.example.com"}, false},
		{"listed extension", open, loopback, "localhost", []string{"chrome-extension://abcdef"}, true},
		{"listed null", open, loopback, "localhost", []string{"null"}, true},
	}
	srv := newServer(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr, err := net.ResolveTCPAddr("tcp", tt.local)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest("POST", "/mcp", strings.NewReader(body("server/discover", "")))
			r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(addr)))
			r.Header = headers("server/discover", "")
			r.Host, r.Header["Origin"] = tt.host, tt.origin
			w := httptest.NewRecorder()
			serverhttp.New(srv, tt.opts).ServeHTTP(w, r)
			got := read(t, w.Result())
			if want := map[bool]int{true: 200, false: 403}[tt.want]; got.status != want {
				t.Errorf("got status %d, want %d: %s", got.status, want, got.body)
			}
			if !tt.want && (got.code() != -32600 || got.ID != nil) {
				t.Errorf("got code %d and id %q, want -32600 and none", got.code(), got.ID)
			}
		})
	}
}

// TestRebinding does what a page that has rebound its name does.
func TestRebinding(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	own := strings.TrimPrefix(ts.URL, "http://")
	for _, tt := range []struct {
		host, origin string
		status       int
	}{
		{"evil.example.com", "http://evil.example.com", 403},
		{own, "http://evil.example.com", 403},
		{"evil.example.com", "", 403},
		{own, "http://" + own, 200},
		{own, "", 200},
	} {
		got := do(t, ts, "POST", headers("server/discover", "", "Host", tt.host, "Origin", tt.origin), body("server/discover", ""))
		if got.status != tt.status {
			t.Errorf("Host %q, Origin %q: got status %d, want %d", tt.host, tt.origin, got.status, tt.status)
		}
	}
	// Nothing else is looked at, not even what the method would tell.
	if got := do(t, ts, "GET", headers("", "", "Host", "evil.example.com"), ""); got.status != 403 {
		t.Errorf("GET: got status %d, want 403", got.status)
	}
}
