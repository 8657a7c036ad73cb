package serverhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// addMirrored registers a tool with an argument mirrored into a header.
func addMirrored(srv server.Registrar) {
	server.AddRawTool(srv, server.Tool{Name: "run", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"other":{"type":"string"}}}`)},
		says("ran"))
}

func TestParamHeaders(t *testing.T) {
	t.Run("tool of the server", func(t *testing.T) {
		srv := newServer(t, nil)
		addMirrored(srv)
		testParamHeaders(t, srv)
	})
	t.Run("tool of a catalog", func(t *testing.T) {
		var catalog *server.Catalog
		srv := newServer(t, &server.Options{
			Capabilities: protocol.ServerCapabilities{Tools: &protocol.ListCapability{}},
			Middleware: before(func(_ context.Context, r *server.Request) error {
				r.Catalogs = []*server.Catalog{catalog}
				return nil
			})})
		catalog = srv.NewCatalog(nil)
		addMirrored(catalog)
		testParamHeaders(t, srv)
	})
}

func testParamHeaders(t *testing.T, srv *server.Server) {
	ts, _ := serve(t, srv, nil)
	for _, test := range []struct {
		name      string
		arguments string
		header    []string // values of Mcp-Param-Region
		status    int
		code      int64
	}{
		{"the same", `{"region":"eu"}`, []string{"eu"}, 200, 0},
		{"white space around it", `{"region":"eu"}`, []string{" eu\t"}, 200, 0},
		{"encoded", `{"region":"Hello"}`, []string{"=?base64?SGVsbG8=?="}, 200, 0},
		{"null and no header", `{"region":null}`, nil, 200, 0},
		{"null and a header", `{"region":null}`, []string{"null"}, 400,
			protocol.CodeHeaderMismatch},
		{"empty", `{"region":""}`, []string{""}, 200, 0},
		{"neither", `{"other":"x"}`, nil, 200, 0},
		{"another value", `{"region":"eu"}`, []string{"us"}, 400, protocol.CodeHeaderMismatch},
		{"missing", `{"region":"eu"}`, nil, 400, protocol.CodeHeaderMismatch},
		{"header alone", `{"other":"x"}`, []string{"eu"}, 400, protocol.CodeHeaderMismatch},
		{"twice", `{"region":"eu"}`, []string{"eu", "eu"}, 400, protocol.CodeHeaderMismatch},
		{"bad characters", `{"region":"Hello"}`, []string{"=?base64?SGVs!!!bG8=?="}, 400,
			protocol.CodeHeaderMismatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := headers("tools/call", "run")
			h["Mcp-Param-Region"] = test.header
			got := do(t, ts, "POST", h,
				body("tools/call", `"name":"run","arguments":`+test.arguments))
			if got.status != test.status || got.code() != test.code {
				t.Errorf("got %d %d, want %d %d; body %s", got.status, got.code(), test.status,
					test.code, got.body)
			}
			if test.code != 0 && !strings.Contains(got.Error.Message, "Mcp-Param-Region") {
				t.Errorf("message %q does not name the header", got.Error.Message)
			}
		})
	}
}

// Header names match in any case.
func TestParamHeaderNames(t *testing.T) {
	srv := newServer(t, nil)
	addMirrored(srv)
	ts, _ := serve(t, srv, nil)
	for line, code := range map[string]int64{
		"mcp-param-region: eu": 0, "MCP-PARAM-REGION:eu": 0,
		"mcp-param-region: us":                         protocol.CodeHeaderMismatch,
		"Mcp-Param-Region: eu\r\nmcp-param-region: eu": protocol.CodeHeaderMismatch,
		"Mcp-Param-Regions: eu":                        protocol.CodeHeaderMismatch,
	} {
		got := rawExchange(t, ts, rawRequest(body("tools/call", `"name":"run","arguments":{"region":"eu"}`),
			"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: run", line))
		if got.code() != code || (code == 0) != (got.status == 200) {
			t.Errorf("%q: got status %d, %s, want code %d", line, got.status, got.body, code)
		}
	}
}

// A hidden tool must not be revealed by its headers.
func TestParamHeadersOfHiddenTool(t *testing.T) {
	srv := newServer(t, &server.Options{
		Visible: func(p protocol.Principal, _ server.Kind, name string) bool {
			return p.Subject == "admin" ||
				name != "run"
		},
	})
	addMirrored(srv)
	ts, _ := serve(t, srv, &serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			return protocol.Principal{Issuer: "test", Subject: r.Header.Get("X-User")}, nil
		},
	})
	for _, test := range []struct {
		user, tool string
		code       int64
	}{
		{"admin", "run", protocol.CodeHeaderMismatch},
		{"guest", "run", protocol.CodeInvalidParams},
		{"guest", "none", protocol.CodeInvalidParams},
	} {
		t.Run(test.user+" calls "+test.tool, func(t *testing.T) {
			got := do(t, ts, "POST", headers("tools/call", test.tool, "X-User", test.user),
				body("tools/call", `"name":"`+test.tool+`","arguments":{"region":"eu"}`))
			if got.code() != test.code {
				t.Errorf("%s calls %s: got %s, want code %d", test.user, test.tool,
					got.body, test.code)
			}
		})
	}
}

// A client must not make a replica remove a header that the owner would check.
func TestConnectionRemovesNoHeader(t *testing.T) {
	f := newFleet(t, &serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			if r.Header.Get("Authorization") != "Bearer ada" {
				return protocol.Principal{}, errors.New("no token")
			}
			return protocol.Principal{Subject: "ada"}, nil
		}}, "a", "b")
	addMirrored(f.all["a"].srv)
	owner := openAs(t, f.all["a"].ts, "Bearer ada")
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":` +
		`{"region":"us"}}}`
	for _, connection := range []string{"Accept", "Authorization", "Content-Type", "Host",
		"Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Param-Region", "Mcp-Protocol-Version",
		"Mcp-Session-Id", "Origin"} {
		for _, region := range []string{"us", "eu"} {
			want := read(t, owner.post(call, "Connection", connection,
				"Mcp-Param-Region", region))
			if ran := strings.Contains(want.body, "ran"); ran != (region == "us") {
				t.Errorf("Connection: %s, region %s, at the owner: got %d: %s", connection, region,
					want.status, want.body)
			}
			got := read(t, owner.through(f.all["b"]).post(call, "Connection", connection,
				"Mcp-Param-Region", region))
			if got.status != want.status || got.body != want.body {
				t.Errorf("Connection: %s, region %s: got %d: %s, the owner answers %d: %s",
					connection, region, got.status, got.body, want.status, want.body)
			}
		}
	}
}
