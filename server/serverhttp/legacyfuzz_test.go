package serverhttp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/internal/testing/servertest"
)

// Nothing panics or hangs, and every response is well-formed and legacy.
func FuzzLegacy(f *testing.F) {
	srv := newServer(f, nil)
	h := servertest.NewHandler(f, srv, nil)
	session := serveDirect(f.Context(), h, "POST", "",
		initializeBody("2025-03-26")).Header().Get("Mcp-Session-Id")
	if session == "" {
		f.Fatal("no session")
	}
	for _, seed := range []string{
		initializeBody("2025-11-25"),
		pingRequest(1),
		toolCall(2, "notify"),
		toolCall(3, "echo"),
		`[` + pingRequest(1) + `,` + toolCall(2, "notify") + `,` + pinged + `]`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":"server-1","result":{"action":"accept"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://a"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://b"}}`,
	} {
		if seed == "" {
			f.Fatal("empty seed")
		}
		f.Add("POST", seed, "2025-03-26", "", true)
		f.Add("POST", seed, "", "", false)
		f.Add("DELETE", seed, "2025-11-25", "a-1-1", false)
		f.Add("GET", seed, "x", "a-1-1", true)
	}
	f.Fuzz(func(t *testing.T, method, body, version, last string, inSession bool) {
		if inSession && method == "DELETE" || method == "GET" && last == "" {
			return // ends the shared session, or does not end
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(body))
		r.Method = method
		r.Header = http.Header{"Content-Type": {"application/json"},
			"Mcp-Protocol-Version": {version}}
		if last != "" {
			r.Header["Last-Event-Id"] = []string{last}
		}
		if inSession {
			r.Header["Mcp-Session-Id"] = []string{session}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200, 202, 400, 404, 405, 413, 429, 503:
		default:
			t.Errorf("got status %d", w.Code)
		}
		text := w.Body.String()
		switch kind := w.Header().Get("Content-Type"); kind {
		case "application/json":
			if !json.Valid(w.Body.Bytes()) || strings.ContainsAny(text, "\r\n") {
				t.Errorf("got %q", text)
			}
		case "text/event-stream":
			for _, event := range events(t, strings.NewReader(text)) {
				if !json.Valid([]byte(event)) {
					t.Errorf("got the event %q", event)
				}
			}
		case "":
			wantEqual(t, "without a type", text, "")
		default:
			t.Errorf("got the type %q", kind)
		}
		if inSession && version == "2025-03-26" && !strings.Contains(body,
			"io.modelcontextprotocol") && strings.Contains(text, `"resultType":`) {
			t.Errorf("of the other era: %s", text)
		}
	})
}
