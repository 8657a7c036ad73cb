package bearer_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// BenchmarkCall: a ping whose sender is anonymous, or has a token that was verified before.
func BenchmarkCall(b *testing.B) {
	f := newFakeIssuer(b)
	g := newResourceServer(b, f, nil)
	plain := f.token(nil)
	for _, of := range []struct {
		name      string
		authority serverhttp.Authority
		header    func() http.Header
	}{
		{"anonymous", nil, func() http.Header { return http.Header{} }},
		{"cached token", g, func() http.Header {
			return http.Header{"Authorization": {"Bearer " + plain}}
		}},
	} {
		b.Run(of.name, func(b *testing.B) {
			srv, err := server.New(nil)
			check(b, err)
			endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: of.authority,
				StatelessLegacy: true})
			check(b, err)
			requests := make([]*http.Request, b.N)
			for n := range requests {
				requests[n] = httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp",
					strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
				requests[n].Header = of.header()
				requests[n].Header.Set("Content-Type", "application/json")
				requests[n].Header.Set("Accept", "application/json, text/event-stream")
				requests[n].Header.Set("MCP-Protocol-Version", "2025-11-25")
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, r := range requests {
				w := httptest.NewRecorder()
				endpoint.ServeHTTP(w, r)
				if w.Code != http.StatusOK {
					b.Fatalf("status %d: %s %v", w.Code, w.Body, w.Header())
				}
			}
		})
	}
}
