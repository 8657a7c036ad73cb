package mcpgo_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// A person may think for longer than mcp-go keeps a session that is idle: the session of an
// open call is not.
func TestOpenCallsKeepTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHostServer()
		_, acted := addDelete(s)
		next := server.NewStreamableHTTPServer(s, quiet(), server.WithStateful(true),
			server.WithSessionIdleTTL(time.Minute))
		h := install(t, s, nil).Handler(next)
		session := ""
		serve := func(message string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(message))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Protocol-Version", v20251125)
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		session = serve(handshake(v20251125)).Header().Get("Mcp-Session-Id")
		call := make(chan string)
		go func() {
			call <- serve(`{"jsonrpc":"2.0","id":7,"method":"tools/call",` +
				`"params":{"name":"delete"}}`).Body.String()
		}()
		time.Sleep(4 * time.Minute)
		answer := serve(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept",` +
			`"content":{"zeal":"much"}}}`)
		if answer.Code >= 300 {
			t.Errorf("the answer: %d %s", answer.Code, answer.Body)
		}
		if got := <-call; !strings.Contains(got, "deleted") || acted.Load() != 1 {
			t.Errorf("got %s", got)
		}
		time.Sleep(4 * time.Minute)
		const plain = `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"plain"}}`
		if got := serve(plain); got.Code != http.StatusNotFound {
			t.Errorf("a session that was idle: %d %s", got.Code, got.Body)
		}
		if err := next.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
