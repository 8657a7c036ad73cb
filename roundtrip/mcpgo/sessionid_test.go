package mcpgo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/event"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// byBearer names callers by their tokens.
func byBearer(_ context.Context, header http.Header) protocol.Principal {
	return protocol.Principal{Subject: strings.TrimPrefix(header.Get("Authorization"), "Bearer ")}
}

// vault is a server that keeps an API client per session, as vault-mcp-server does: made with
// the token of the first call of the session.
type vault struct {
	clients sync.Map // session id → token
	mu      sync.Mutex
	ids     []string
}

func (v *vault) addTo(s *server.MCPServer) {
	s.AddTool(mcp.NewTool("read"),
		func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			id := server.ClientSessionFromContext(ctx).SessionID()
			v.mu.Lock()
			v.ids = append(v.ids, id)
			v.mu.Unlock()
			token, _ := v.clients.LoadOrStore(id, r.Header.Get("Authorization"))
			return mcp.NewToolResultText(token.(string)), nil
		})
}

// frontAs returns the address of a proxy that sends every request with a token.
func frontAs(t *testing.T, endpoint, token string) string {
	behind, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = behind.Scheme, behind.Host, behind.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(front.Close)
	return front.URL + behind.Path
}

// Four people call a server that keeps something per session: each call goes out with the
// caller's own token, in both eras, and with handlers that ask as they did.
func TestFourCallersOfAServerThatKeepsClientsPerSession(t *testing.T) {
	for _, revision := range []string{modern, v20251125} {
		for name, opts := range map[string]mcpgo.Options{
			"principals":            {Principal: byBearer},
			"no principals":         {},
			"unmodified":            {UnmodifiedHandlers: true},
			"unmodified principals": {UnmodifiedHandlers: true, Principal: byBearer},
		} {
			t.Run(revision+"/"+name, func(t *testing.T) {
				var seen bugs
				opts.Options = roundtrip.Options{Observer: &seen}
				s, v := newHostServer(), &vault{}
				v.addTo(s)
				endpoint, _ := serveHTTP(t, install(t, s, &opts), s)
				for _, token := range []string{"ann", "bob", "cid", "dan"} {
					c := dialRondo(t, frontAs(t, endpoint, token), revision, newPerson(nil))
					for range 2 {
						got, err := c.tool(within(t), "read", nil)
						if err != nil || got != "Bearer "+token {
							t.Errorf("%s: the call went out with %q, %v", token, got, err)
						}
					}
				}
				v.checkIDs(t, revision == modern && opts.Principal == nil)
				warned := 0
				for _, e := range seen.events {
					if bug, ok := e.(event.ServerBug); ok && strings.Contains(bug.Err.Error(),
						"per session") {
						warned++
					}
				}
				if want := revision == modern && opts.Principal == nil; warned > 1 ||
					(warned == 1) != want {
					t.Errorf("warned %d times, want it once: %v", warned, want)
				}
			})
		}
	}
}

// checkIDs holds that callers have ids of their own, which do not name them.
func (v *vault) checkIDs(t *testing.T, perRequest bool) {
	t.Helper()
	distinct := map[string]bool{}
	for _, id := range v.ids {
		distinct[id] = true
		if len(id) < 20 || strings.Contains(id, "ann") {
			t.Errorf("the id of a session is %q", id)
		}
	}
	want := 4
	if perRequest {
		want = 8
	}
	if len(v.ids) != 8 || len(distinct) != want {
		t.Errorf("%d calls with %d ids, want 8 with %d", len(v.ids), len(distinct), want)
	}
}

// A server whose handlers read no session id is not warned.
func TestNoWarningWhereNoSessionIDIsRead(t *testing.T) {
	var seen bugs
	s := newHostServer()
	addGuard(s)
	opts := mcpgo.Options{UnmodifiedHandlers: true}
	opts.Observer = &seen
	endpoint, _ := serveHTTP(t, install(t, s, &opts), s)
	if got, err := dialRondo(t, endpoint, modern, newPerson(nil)).tool(within(t), "typed",
		nil); err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := seen.err(); err != nil {
		t.Error(err)
	}
}
