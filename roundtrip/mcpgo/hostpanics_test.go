package mcpgo_test

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/roundtrip/mcpgo"
)

// fragile is what hosts give to mcp-go for its sessions. It panics in one of its methods.
type fragile struct {
	server.EventStore
	server.InsecureStatefulSessionIdManager
	panicsIn string
}

func (f *fragile) use(method string) {
	if method == f.panicsIn {
		panic("no database")
	}
}

func (f *fragile) Generate() string {
	f.use("Generate")
	return f.InsecureStatefulSessionIdManager.Generate()
}

func (f *fragile) Validate(id string) (bool, error) {
	f.use("Validate")
	return f.InsecureStatefulSessionIdManager.Validate(id)
}

func (f *fragile) Terminate(id string) (bool, error) {
	f.use("Terminate")
	return f.InsecureStatefulSessionIdManager.Terminate(id)
}

func (f *fragile) ReplayEventsAfter(ctx context.Context, session, last string,
	send func(string, json.RawMessage) error) (string, error) {
	f.use("ReplayEventsAfter")
	return f.EventStore.ReplayEventsAfter(ctx, session, last, send)
}

func (f *fragile) PurgeSession(ctx context.Context, session string) error {
	f.use("PurgeSession")
	return f.EventStore.PurgeSession(ctx, session)
}

// TestHostsCodeThatPanics has what mcp-go calls of the host's over HTTP, outside of middleware,
// panic in a session: each request is answered, without the text of the panic, the panic is
// reported, and the next client is served.
func TestHostsCodeThatPanics(t *testing.T) {
	for _, method := range []string{"Generate", "Validate", "Terminate", "ReplayEventsAfter",
		"PurgeSession", "context function", "register hook"} {
		t.Run(method, func(t *testing.T) {
			host := &fragile{EventStore: server.NewInMemoryEventStore(), panicsIn: method}
			hooks := &server.Hooks{}
			hooks.AddOnRegisterSession(func(context.Context, server.ClientSession) {
				host.use("register hook")
			})
			s := newHostServer(server.WithHooks(hooks))
			s.AddTool(mcp.NewTool("log"), func(ctx context.Context, _ mcp.CallToolRequest) (
				*mcp.CallToolResult, error) {
				_ = s.SendNotificationToClient(ctx, "notifications/message",
					map[string]any{"level": "info", "data": "running"})
				return mcp.NewToolResultText("done"), nil
			})
			found := &panics{}
			a := install(t, s, &mcpgo.Options{Options: roundtrip.Options{Observer: found}})
			ts := httptest.NewServer(a.Handler(server.NewStreamableHTTPServer(s, quiet(),
				server.WithSessionIdManager(host), server.WithEventStore(host),
				server.WithHTTPContextFunc(func(ctx context.Context,
					_ *http.Request) context.Context {
					host.use("context function")
					return ctx
				}))))
			defer ts.Close()
			if failures := playSession(t, ts); failures == 0 {
				t.Error("no request was answered with an internal error")
			}
			if len(found.values) == 0 {
				t.Error("no panic was reported")
			}
			host.panicsIn = ""
			if failures := playSession(t, ts); failures > 0 {
				t.Errorf("afterwards: %d internal errors", failures)
			}
		})
	}
}

// playSession opens a session, calls a tool in it, resumes a stream that is unknown, and deletes
// the session. It returns how many requests were answered with an internal error.
func playSession(t *testing.T, ts *httptest.Server) (failures int) {
	t.Helper()
	p := &picky{t: t, endpoint: ts.URL}
	send := func(method, body, last string) {
		t.Helper()
		response, text := p.exchange(method, body, "Last-Event-ID", last)
		if strings.Contains(text, "database") {
			t.Errorf("the client reads %s", text)
		}
		if strings.Contains(text, "-32603") {
			failures++
		}
		p.session = cmp.Or(p.session, response.Header.Get("Mcp-Session-Id"))
	}
	send(http.MethodPost, handshake(v20251125), "")
	if failures > 0 {
		return failures
	}
	send(http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"log"}}`,
		"")
	send(http.MethodGet, "", "unknown")
	send(http.MethodDelete, "", "")
	return failures
}
