package serverhttp_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestSource checks requests from pages and other clients. local is the connection's address.
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
		{"127.0.0.1", none, loopback, "127.0.0.1:8080", nil, true},
		{"::1", none, "[::1]:8080", "[::1]:8080", nil, true},
		{"mapped", none, loopback, "[::ffff:127.0.0.1]:8080", nil, true},
		{"rebound name", none, loopback, "evil.example.com:8080", nil, false},
		{"rebound name with its own origin", none, loopback, "evil.example.com",
			[]string{"http://evil.example.com"}, false},
		{"name that starts like localhost", none, loopback, "localhost.evil.example.com", nil,
			false},
		{"address within a name", none, loopback, "127.0.0.1.example.com", nil, false},
		{"user information", none, loopback, "localhost@evil.example.com", nil, false},
		{"port not a number", none, loopback, "localhost:http", nil, false},
		{"no host", none, loopback, "", nil, false},
		{"brackets without address", none, loopback, "[localhost]", nil, false},
		{"unclosed bracket", none, loopback, "[::1", nil, false},
		{"short address", none, loopback, "127.1", nil, false},
		{"any name elsewhere", none, lan, "anything.example.com", nil, true},
		{"listed on loopback", open, loopback, "mcp.example.com:8080", nil, true},
		{"listed elsewhere", open, lan, "mcp.EXAMPLE.com", nil, true},
		{"listed IPv6 address", open, lan, "[2001:DB8::1]:8080", nil, true},
		{"unlisted elsewhere", open, lan, "evil.example.com", nil, false},
		{"loopback name elsewhere", open, lan, "localhost", nil, false},

		{"same origin", none, lan, "mcp.example.com", []string{"https://mcp.example.com"}, true},
		{"same origin, default port", none, lan, "mcp.example.com:443",
			[]string{"https://mcp.example.com"}, true},
		{"same origin behind a proxy", none, lan, "mcp.example.com",
			[]string{"http://mcp.example.com"}, true},
		{"same host, other port", none, lan, "mcp.example.com",
			[]string{"https://mcp.example.com:8443"}, false},
		{"same host, port of the other scheme", none, lan, "mcp.example.com:80",
			[]string{"https://mcp.example.com"}, false},
		{"other origin", none, lan, "mcp.example.com", []string{"https://evil.example.com"}, false},
		{"prefix", none, lan, "mcp.example.com", []string{"https://evilmcp.example.com"}, false},
		{"path", none, lan, "mcp.example.com", []string{"https://mcp.example.com/x"}, false},
		{"user", none, lan, "mcp.example.com", []string{"https://mcp.example.com@evil.com"}, false},
		{"extension of the same host", none, lan, "abcdef", []string{"chrome-extension://abcdef"},
			false},
		{"loopback to loopback", none, loopback, "127.0.0.1:8080",
			[]string{"http://localhost:6274"}, true},
		{"loopback to a published port", none, lan, "localhost:8080",
			[]string{"http://localhost:6274"}, true},
		{"loopback to elsewhere", none, lan, "mcp.example.com", []string{"http://localhost:6274"},
			false},
		{"elsewhere to loopback", none, loopback, "localhost:8080",
			[]string{"http://evil.example.com"}, false},
		{"null", none, loopback, "localhost", []string{"null"}, false},
		{"empty", none, loopback, "localhost", []string{""}, false},
		{"two origins", none, loopback, "localhost",
			[]string{"http://localhost", "http://localhost"}, false},
		{"listed", open, loopback, "localhost", []string{"https://app.example.com"}, true},
		{"listed with another port", open, loopback, "localhost",
			[]string{"https://app.example.com:444"}, false},
		{"listed extension", open, loopback, "localhost", []string{"chrome-extension://abcdef"},
			true},
		{"listed null", open, loopback, "localhost", []string{"null"}, true},
	}
	srv := newServer(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr, err := net.ResolveTCPAddr("tcp", tt.local)
			noError(t, err)
			r := httptest.NewRequest("POST", "/mcp", strings.NewReader(body("server/discover", "")))
			r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey,
				net.Addr(addr)))
			r.Header = headers("server/discover", "")
			r.Host, r.Header["Origin"] = tt.host, tt.origin
			w := httptest.NewRecorder()
			servertest.NewHandler(t, srv, tt.opts).ServeHTTP(w, r)
			got := read(t, w.Result())
			wantStatus(t, "response", got, map[bool]int{true: 200, false: 403}[tt.want])
			if !tt.want && (got.code() != -32600 || got.ID != nil) {
				t.Errorf("got code %d and id %q, want -32600 and none", got.code(), got.ID)
			}
		})
	}
}

// The type elsewhere is a listener whose connections report another local address.
type elsewhere struct {
	net.Listener
	local net.Addr
}

func (l elsewhere) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return elsewhereConn{conn, l.local}, err
}

type elsewhereConn struct {
	net.Conn
	local net.Addr
}

func (c elsewhereConn) LocalAddr() net.Addr { return c.local }

// A page that has rebound its name looks like a page of the same origin. Genuine sites have https,
// an address, or an entry in AllowedHosts.
func TestRebindingOfPrivateAddresses(t *testing.T) {
	none, hosts := &serverhttp.Options{},
		&serverhttp.Options{AllowedHosts: []string{"mcp.corp.example"}}
	origins := &serverhttp.Options{AllowedOrigins: []string{"http://mcp.corp.example"}}
	const private, public, overlay = "192.168.7.7:80", "203.0.113.7:80", "100.101.7.7:80"
	tests := []struct {
		name                string
		opts                *serverhttp.Options
		local, host, origin string
		status              int
	}{
		{"rebound", none, private, "evil.example.com", "http://evil.example.com", 403},
		{"rebound, overlay network", none, overlay, "evil.example.com", "http://evil.example.com",
			403},
		{"rebound, link-local", none, "169.254.7.7:80", "evil.example.com",
			"http://evil.example.com", 403},
		{"rebound, IPv6", none, "[fd00::7]:80", "evil.example.com", "http://evil.example.com", 403},
		{"rebound, mapped", none, "[::ffff:10.0.0.7]:80", "evil.example.com",
			"http://evil.example.com", 403},
		{"name that looks like an address", none, private, "192.168.7.7.evil.example.com",
			"http://192.168.7.7.evil.example.com", 403},
		{"rebound beside a list", hosts, private, "evil.example.com", "http://evil.example.com",
			403},
		{"rebound beside origins", origins, private, "evil.example.com", "http://evil.example.com",
			403},
		{"foreign page", none, private, "192.168.7.7", "http://evil.example.com", 403},

		{"no page", none, private, "mcp.corp.example", "", 200},
		{"address", none, private, "192.168.7.7", "http://192.168.7.7", 200},
		{"published port of a container", none, "172.17.0.2:80", "localhost:8080",
			"http://localhost:8080", 200},
		{"behind a proxy that ends TLS", none, private, "mcp.example.com",
			"https://mcp.example.com", 200},
		{"listed host", hosts, private, "mcp.corp.example", "http://mcp.corp.example", 200},
		{"listed origin", origins, private, "mcp.corp.example", "http://mcp.corp.example", 200},
		{"public address", none, public, "mcp.example.com", "http://mcp.example.com", 200},
		{"public address beside the overlay's", none, "100.128.7.7:80", "mcp.example.com",
			"http://mcp.example.com", 200},
		{"public address that ends like one", none, "8.101.7.7:80", "mcp.example.com",
			"http://mcp.example.com", 200},
	}
	srv, _ := legacyServer(t, nil)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr, err := net.ResolveTCPAddr("tcp", tt.local)
			noError(t, err)
			ts := httptest.NewUnstartedServer(servertest.NewHandler(t, srv, tt.opts))
			ts.Listener = elsewhere{ts.Listener, addr}
			ts.Start()
			t.Cleanup(ts.Close)
			modern := do(t, ts, "POST", headers("server/discover", "", "Host", tt.host, "Origin",
				tt.origin), body("server/discover", ""))
			legacy := do(t, ts, "POST", headers("", "", "Host", tt.host, "Origin", tt.origin,
				"Mcp-Method", "",
				"Mcp-Protocol-Version", "2025-11-25"), initializeBody("2025-11-25"))
			for era, got := range map[string]*reply{"modern": modern, "legacy": legacy} {
				wantStatus(t, era, got, tt.status)
				if tt.status == 403 && !strings.Contains(got.body, "AllowedHosts") &&
					!strings.Contains(got.body, "AllowedOrigins") {
					t.Errorf("%s: %s does not say which option to set", era, got.body)
				}
			}
		})
	}
}
