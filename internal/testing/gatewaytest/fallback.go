package gatewaytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// AcceptFallback prints and holds what becomes of the pairings of a gateway with older and modern
// clients: older ones are asked. A modern request is refused, before the upstream is called, with
// the revisions that have sessions, so that clients which know one fall back, and others read why;
// server/discover may list these as its result.
func AcceptFallback(t *testing.T, build Build) {
	up := NewLibrary(t)
	called := 0
	up.Intercept = func(_ http.ResponseWriter, _ *http.Request, m *Message) bool {
		if m.Method == "tools/call" {
			called++
		}
		return false
	}
	url := serve(t, build, newRouter(t, nil), &Backend{Upstream: up, Publish: true})
	const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}`
	for method, params := range map[string]string{"server/discover": `"_meta":` + meta,
		"tools/call": `"name":"up_ask","arguments":{},"_meta":` + meta} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(
			fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Method": {method},
			"Accept":               {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}}
		if method == "tools/call" {
			r.Header.Set("Mcp-Name", "up_ask")
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		var m struct {
			Error struct {
				Code    int
				Message string
				Data    struct{ Supported []string }
			}
			Result struct{ SupportedVersions []string }
		}
		text := string(body)
		if at := strings.Index(text, "{"); at > 0 {
			text = text[at:] // of an event
		}
		failed := json.NewDecoder(strings.NewReader(text)).Decode(&m)
		has := m.Error.Data.Supported
		discovered := method == "server/discover" && m.Error.Code == 0
		if discovered {
			has = m.Result.SupportedVersions
		}
		if err != nil || failed != nil || !discovered && m.Error.Code != -32022 ||
			!slices.Contains(has, "2025-11-25") || slices.Contains(has, "2026-07-28") {
			t.Errorf("%s of a modern client: got %s", method, body)
		}
		t.Logf("modern client alone | %s | %d %s %q", method, m.Error.Code, m.Error.Message, has)
	}
	if called > 0 {
		t.Errorf("the upstream was called %d times for a client that is refused", called)
	}
	older := Connect(t, url, forms, `"result":`+because, nil)
	got := older.Call(t, "up_ask", plain)
	if got != because || called != 1 {
		t.Errorf("an older client: got %s", got)
	}
	t.Logf("older client | tools/call | %s, %d call upstream", got, called)
}
