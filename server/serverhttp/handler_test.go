package serverhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/keys"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/replicas"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestRequests checks status, code and id for every kind of request in the package documentation.
func TestRequests(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	const echo = `"name":"echo","arguments":{"message":"hi"}`
	unversioned := func(method, meta string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + meta + `}}`
	}
	versioned := func(method, version string) string {
		return strings.Replace(body(method, ""), "2026-07-28", version, 1)
	}
	discover := headers("server/discover", "")
	tests := []struct {
		name    string
		header  http.Header
		body    string
		status  int
		code    int64
		message string // part of the error
	}{
		{"discover", discover, body("server/discover", ""), 200, 0, ""},
		{"call", headers("tools/call", "echo"), body("tools/call", echo), 200, 0, ""},
		{"read", headers("resources/read", "test://a"), body("resources/read", `"uri":"test://a"`),
			200, 0, ""},
		{"unknown tool", headers("tools/call", "none"), body("tools/call", `"name":"none"`), 200,
			-32602, "none"},
		{"unknown resource", headers("resources/read", "test://b"),
			body("resources/read", `"uri":"test://b"`), 200, -32602, "test://b"},
		{"missing capability", headers("tools/call", "sample"),
			body("tools/call", `"name":"sample"`), 400, -32021, "sampling"},
		{"panic", headers("tools/call", "panic"), body("tools/call", `"name":"panic"`), 200,
			-32603, ""},

		{"unknown method", headers("unknown/method", ""), body("unknown/method", ""), 404, -32601,
			"unknown/method"},
		{"initialize", headers("initialize", ""), body("initialize", ""), 404, -32601,
			"2026-07-28"},
		{"resources/subscribe", headers("resources/subscribe", ""),
			body("resources/subscribe", `"uri":"test://a"`), 404, -32601, ""},
		{"not offered", headers("prompts/list", ""), body("prompts/list", ""), 404, -32601,
			"prompts/list"},

		{"no params", discover, `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, 400, -32602, protocol.MetaProtocolVersion},
		{"no _meta", discover, unversioned("server/discover", ""), 400, -32602,
			protocol.MetaProtocolVersion},
		{"no capabilities", discover, unversioned("server/discover", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`), 400, -32602, protocol.MetaClientCapabilities},
		{"missing name", headers("tools/call", ""), body("tools/call", ``), 400, -32602, "name"},

		{"unknown version", headers("server/discover", "", "Mcp-Protocol-Version", "v999.0.0"),
			versioned("server/discover", "v999.0.0"), 400, -32022, "v999.0.0"},
		{"unknown version in the header alone",
			headers("server/discover", "", "Mcp-Protocol-Version", "v999.0.0"),
			unversioned("server/discover", ""), 400, -32022, "v999.0.0"},
		{"legacy version in _meta", headers("server/discover", "", "Mcp-Protocol-Version",
			"2025-11-25"), versioned("server/discover", "2025-11-25"), 400, -32022, "2025-11-25"},
		{"versions differ", discover, versioned("server/discover", "v999.0.0"), 400, -32020,
			"MCP-Protocol-Version"},
		{"versions differ the other way",
			headers("server/discover", "", "Mcp-Protocol-Version", "2025-11-25"),
			body("server/discover", ""), 400, -32020, "MCP-Protocol-Version"},
		{"no version header", headers("server/discover", "", "Mcp-Protocol-Version", ""),
			body("server/discover", ""), 400, -32020, "MCP-Protocol-Version"},

		{"no method header", headers("server/discover", "", "Mcp-Method", ""),
			body("server/discover", ""), 400, -32020, "Mcp-Method"},
		{"method header differs", headers("tools/list", ""), body("server/discover", ""), 400,
			-32020, "Mcp-Method"},
		{"method header differs, method unknown", headers("tools/list", ""),
			body("unknown/method", ""), 400, -32020, "Mcp-Method"},
		{"no name header", headers("tools/call", ""), body("tools/call", echo), 400, -32020,
			"Mcp-Name"},
		{"name header differs", headers("tools/call", "other"), body("tools/call", echo), 400,
			-32020, "Mcp-Name"},
		{"uri header differs", headers("resources/read", "test://b"),
			body("resources/read", `"uri":"test://a"`), 400, -32020, "Mcp-Name"},
		{"name header where there is none", headers("server/discover", "anything"),
			body("server/discover", ""), 200, 0, ""},
		{"encoded name", headers("tools/call", "=?base64?ZWNobw==?="), body("tools/call", echo),
			200, 0, ""},
		{"encoded name differs", headers("tools/call", "=?base64?YQ==?="), body("tools/call", echo),
			400, -32020, `"a"`},
		{"encoded name, bad padding", headers("tools/call", "=?base64?ZWNobw?="),
			body("tools/call", echo), 400, -32020, "Mcp-Name"},
		{"name not ASCII", headers("tools/call", "=?base64?d8O2cms=?="), body("tools/call", `"name":"wörk","arguments":{"message":"hi"}`), 200, 0, ""},
		{"name like the sentinel, raw", headers("tools/call", "=?base64?YQ==?="), body("tools/call", `"name":"=?base64?YQ==?=","arguments":{"message":"hi"}`), 400, -32020, "Mcp-Name"},

		{"session header is ignored", headers("server/discover", "", "Mcp-Session-Id", "abc"),
			body("server/discover", ""), 200, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := do(t, ts, "POST", tt.header, tt.body)
			wantRefusal(t, "the answer", got, tt.status, tt.code)
			wantEqual(t, "id", string(got.ID), "7")
			if tt.code != 0 && !strings.Contains(got.Error.Message, tt.message) {
				t.Errorf("message %q does not say %q", got.Error.Message, tt.message)
			}
			if tt.code == -32022 && (len(got.Error.Data.Supported) == 0 ||
				got.Error.Data.Requested != tt.message) {
				t.Errorf("got data %+v, want the versions and %q", got.Error.Data, tt.message)
			}
			wantEqual(t, "session", got.header.Get("Mcp-Session-Id"), "")
		})
	}
}

func TestNotifications(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	bare := headers("", "", "Mcp-Protocol-Version", "", "Mcp-Method", "")
	plain := headers("", "", "Mcp-Method", "")
	tests := []struct {
		name   string
		header http.Header
		method string
		status int
		code   int64
	}{
		{"known", plain, "notifications/cancelled", 202, 0},
		{"unknown", plain, "notifications/unknown", 202, 0},
		{"of a legacy client without session", bare, "notifications/cancelled", 400, -32600},
		{"with headers", headers("notifications/cancelled", ""), "notifications/cancelled", 202, 0},
		{"other method header", headers("tools/call", ""), "notifications/cancelled", 400, -32020},
		{"unknown version", headers("", "", "Mcp-Protocol-Version", "v999", "Mcp-Method", ""),
			"notifications/cancelled", 400, -32022},
		{"foreign origin", headers("notifications/cancelled", "", "Origin",
			"http://evil.example.com"), "notifications/cancelled", 403, -32600},
		{"not acceptable", headers("notifications/cancelled", "", "Accept", "text/html"),
			"notifications/cancelled", 406, -32600},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := do(t, ts, "POST", tt.header, `{"jsonrpc":"2.0","method":"`+tt.method+`"}`)
			if got.status != tt.status || got.code() != tt.code || got.ID != nil {
				t.Errorf("got status %d, code %d and id %q, want %d, %d and none", got.status,
					got.code(), got.ID, tt.status, tt.code)
			}
			if tt.status == http.StatusAccepted && got.body != "" {
				t.Errorf("got the body %q, want none", got.body)
			}
		})
	}
}

func TestHTTPMethods(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	for _, method := range []string{"GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS", "BREW"} {
		got := do(t, ts, method, headers("server/discover", "", "Accept", "text/event-stream",
			"Last-Event-ID", "1"), "")
		if got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "POST" {
			t.Errorf("%s: got status %d and Allow %q, want 405 and POST", method, got.status,
				got.header.Get("Allow"))
		}
	}
}

// Raw headers are only possible without an HTTP library.
func TestRawHeaders(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	call := body("tools/call", `"name":"echo","arguments":{"message":"hi"}`)
	const version, method, name = "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call",
		"Mcp-Name: echo"
	tests := []struct {
		name  string
		extra []string
		code  int64
	}{
		{"plain", []string{version, method, name}, 0},
		{"field names in lower case",
			[]string{"mcp-protocol-version: 2026-07-28", "mcp-method: tools/call",
				"mcp-name: echo"}, 0},
		{"white space around values",
			[]string{"MCP-Protocol-Version: \t2026-07-28 ", "Mcp-Method:  tools/call\t",
				"Mcp-Name: \t echo \t "}, 0},
		{"two versions", []string{version, version, method, name}, -32020},
		{"two methods", []string{version, method, method, name}, -32020},
		{"two names", []string{version, method, name, "Mcp-Name: rm"}, -32020},
		{"empty version", []string{"MCP-Protocol-Version:", method, name}, -32020},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := http.StatusOK
			if tt.code != 0 {
				want = http.StatusBadRequest
			}
			wantRefusal(t, "the answer",
				rawExchange(t, ts, rawRequest(call, tt.extra...)), want, tt.code)
		})
	}
	t.Run("two legacy versions", func(t *testing.T) {
		const legacy = "MCP-Protocol-Version: 2025-11-25"
		request := rawRequest(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, legacy, legacy)
		wantRefusal(t, "the answer", rawExchange(t, ts, request), 400, -32020)
	})
	t.Run("two names without a target", func(t *testing.T) {
		request := rawRequest(body("server/discover", ""), version, "Mcp-Method: server/discover",
			name, name)
		wantRefusal(t, "the answer", rawExchange(t, ts, request), 400, -32020)
	})
}

func TestMiddlewareSeesRefusals(t *testing.T) {
	var seen []int64
	count := func(next server.Handler) server.Handler {
		return func(ctx context.Context, request *server.Request) (protocol.Result, error) {
			result, err := next(ctx, request)
			if e, ok := protocol.AsError(err); ok {
				seen = append(seen, e.Code)
			}
			return result, err
		}
	}
	ts, _ := serve(t, newServer(t, &server.Options{Middleware: []server.Middleware{count}}), nil)
	do(t, ts, "POST", headers("x", ""), body("x", ""))
	do(t, ts, "POST", headers("tools/list", ""), body("x", ""))
	do(t, ts, "POST", headers("tools/call", "other"), body("tools/call", `"name":"echo"`))
	if len(seen) != 3 || seen[0] != -32601 || seen[1] != -32020 || seen[2] != -32020 {
		t.Errorf("middleware saw %v, want -32601 and twice -32020", seen)
	}
}

func TestLargeResponse(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	got := do(t, ts, "POST", headers("tools/call", "large"), body("tools/call", `"name":"large"`))
	if got.status != 200 || len(got.Result.Content) != 1 ||
		len(got.Result.Content[0].Text) != 300_000 {
		t.Errorf("got status %d and %d bytes", got.status, len(got.body))
	}
	if got.header.Get("Content-Length") == "" {
		t.Error("the response has no Content-Length")
	}
}

// The endpoint reports a key of this process. A client of a stream is gone when the process is.
func TestAnEndpointReportsAKeyOfThisProcess(t *testing.T) {
	for want, sealer := range map[int]keys.Sealer{0: servertest.NewKeyring("k1"), 1: nil} {
		var noted []event.EphemeralKey
		srv, err := server.New(&server.Options{
			Roundtrip: roundtrip.Options{Sealer: sealer, Audience: "test"},
			Observer: observerFunc(func(e event.Event) {
				if e, ok := e.(event.EphemeralKey); ok {
					noted = append(noted, e)
				}
			})})
		noError(t, err)
		noError(t, srv.ServeStream(t.Context(), strings.NewReader(""), io.Discard, nil))
		if len(noted) > 0 {
			t.Errorf("a stream reports %v", noted)
		}
		_, err = serverhttp.New(srv, nil)
		noError(t, err)
		if len(noted) != want || want > 0 && !strings.HasPrefix(noted[0].KeyID, "e-") {
			t.Errorf("got %v, want %d", noted, want)
		}
	}
}

func TestNewRefusesMistakes(t *testing.T) {
	srv := newServer(t, nil)
	for _, tt := range []struct {
		name, word string
		srv        *server.Server
		opts       serverhttp.Options
	}{
		{"no server", "nil server", nil, serverhttp.Options{}},
		{"host with port", "AllowedHosts", srv,
			serverhttp.Options{AllowedHosts: []string{"example.com:80"}}},
		{"host with scheme", "AllowedHosts", srv,
			serverhttp.Options{AllowedHosts: []string{"http://example.com"}}},
		{"any host", "AllowedHosts", srv, serverhttp.Options{AllowedHosts: []string{"*"}}},
		{"empty host", "AllowedHosts", srv, serverhttp.Options{AllowedHosts: []string{""}}},
		{"name of a replica", "Replicas", srv,
			serverhttp.Options{Replicas: &replicas.Options{Name: "a.b"}}},
		{"two hooks", "Authority", srv,
			serverhttp.Options{Authenticate: byBearer, Authority: &tokens{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := serverhttp.New(tt.srv, &tt.opts)
			if h != nil || !strings.Contains(fmt.Sprint(err), tt.word) {
				t.Errorf("got %v, %v, want an error that names %s", h, err, tt.word)
			}
		})
	}
}

// A negative number disables a limit, unless nothing else bounds clients' memory.
func TestNumbersOfOptions(t *testing.T) {
	servertest.CheckNumberFields(t, map[string]bool{
		"Limits.BodyBytes": false, "ReadTimeout": false,
		"SessionTimeout": false, "Limits.SessionsPerPrincipal": false,
		"Limits.Sessions": true, "Limits.RequestsPerSession": true,
	}, func(opts *serverhttp.Options) error {
		_, err := serverhttp.New(newServer(t, nil), opts)
		return err
	})
}
