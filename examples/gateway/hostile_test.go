package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/elicitation"
)

// TestClientWithoutAName calls a tool as a client that does not say what it is
// called, which the gateway must survive.
func TestClientWithoutAName(t *testing.T) {
	upstream, err := rondoUpstream()
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(upstream)
	defer up.Close()
	g, err := newGateway(t.Context(), elicitation.Options{}, map[string]string{"data": up.URL + "/mcp"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer g.shutdown()
	gateway := httptest.NewServer(g.handler())
	defer gateway.Close()
	session := ""
	for _, step := range []struct{ body, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`, `"gateway"`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"data_database","arguments":{"name":"x"}}}`, `"id":2`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+"/mcp", strings.NewReader(step.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode >= 300 || !strings.Contains(string(body), step.want) {
			t.Fatalf("%s\nis answered %s: %s, %v", step.body, res.Status, body, err)
		}
		if id := res.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
	}
}
