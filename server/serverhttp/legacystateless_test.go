package serverhttp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

func TestStatelessLegacy(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	addTool(srv, "ask", func(ctx context.Context, _ *server.ToolCall) (toolOutcome, error) {
		if name, ok := who.AcceptedContent(ctx); ok {
			return server.Text("hello, " + name.Name), nil
		}
		return roundtrip.InputRequired(who.Elicit("Who?")), nil
	})
	ts, h := serve(t, srv, &serverhttp.Options{StatelessLegacy: true})
	c := newClient(t, ts, "")
	got := read(t, c.post(initializeBody("2025-11-25")))
	if got.status != 200 || got.header.Get("Mcp-Session-Id") != "" ||
		!strings.Contains(got.body, `"protocolVersion":"2025-11-25"`) {
		t.Errorf("initialize: got status %d: %s", got.status, got.body)
	}
	if strings.Contains(got.body, "listChanged") || strings.Contains(got.body, "subscribe") ||
		strings.Contains(got.body, "logging") {
		t.Errorf("initialize promises what needs a session: %s", got.body)
	}
	wantStatus(t, "initialized",
		read(t, c.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)), 202)
	for _, version := range append([]string{""}, legacyVersions[:]...) {
		got := c.call(1, "echo", "MCP-Protocol-Version", version)
		if got.status != 200 || got.Error != nil || strings.Contains(got.body, "resultType") {
			t.Errorf("%s: got status %d: %s", version, got.status, got.body)
		}
		f := c.flow("POST", toolCall(2, "notify"), "MCP-Protocol-Version", version)
		f.expect(`"progress":0`, `"progress":1`, `"id":2,"result"`)
		f.end()
		if f.LastEventID() != "" {
			t.Errorf("%s: events have ids, although nothing can be resumed", version)
		}
	}
	for _, tool := range []string{"elicit", "ask"} {
		got := c.call(1, tool, "MCP-Protocol-Version", "2025-11-25")
		if got.status != 200 || got.Error == nil && !got.Result.IsError {
			t.Errorf("%s: got status %d, want a refusal: %s", tool, got.status, got.body)
		}
	}
	wantError(t, "the push did not fail", <-steps.ended)
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe",
		"logging/setLevel"} {
		if got := read(t, c.post(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"uri":"test://a","level":"debug"}}`)); got.code() != -32601 {
			t.Errorf("%s: got %s", method, got.body)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if got := read(t, c.do(t.Context(), method, "")); got.status != 405 ||
			got.header.Get("Allow") != "POST" {
			t.Errorf("%s: got status %d and Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
	wantEqual(t, "sessions are open", serverhttp.Sessions(h), 0)
	// The other era is served as ever.
	wantStatus(t, "modern",
		do(t, ts, "POST", headers("server/discover", ""), body("server/discover", "")), 200)
}

// TestStatelessDisconnect holds that a request goes on without its client.
func TestStatelessDisconnect(t *testing.T) {
	srv, steps := legacyServer(t, nil)
	h := servertest.NewHandler(t, srv, &serverhttp.Options{StatelessLegacy: true})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-steps.entered
		cancel()
	}()
	serveDirect(ctx, h, "POST", "", toolCall(1, "steps"))
	steps.permit(4)
	noError(t, h.Shutdown(t.Context()))
	select {
	case err := <-steps.ended:
		t.Errorf("the handler was cancelled: %v", err)
	default:
	}
}
