package serverhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/rondo-mcp/rondo/roundtrip"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// TestLostSessionIsRecognized: clients that are widely used start over only when
// a 404 says "code":-32001 and "Session not found", whatever they had sent.
func TestLostSessionIsRecognized(t *testing.T) {
	const want = `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`
	srv, steps := legacyServer(t, nil)
	opts := &serverhttp.Options{Authenticate: func(r *http.Request) (roundtrip.Principal, error) {
		return roundtrip.Principal{Subject: r.Header.Get("Authorization")}, nil
	}}
	lasting, _ := serve(t, srv, opts)
	brief := *opts
	brief.SessionTimeout = 20 * time.Millisecond
	expiring, h := serve(t, srv, &brief)
	lose := map[string]func(c *legacyClient){
		"unknown":    func(c *legacyClient) { c.session = "x" },
		"somebody's": func(c *legacyClient) { c.bearer = "bob" },
		"deleted":    func(c *legacyClient) { read(t, c.do(t.Context(), "DELETE", "")) },
		"expired": func(c *legacyClient) {
			c.ts, c.session = expiring, ""
			opened := read(t, c.post(initializeBody(c.version)))
			c.session = opened.header.Get("Mcp-Session-Id")
			for serverhttp.Sessions(h) > 0 {
				time.Sleep(time.Millisecond)
			}
		},
		"deleted in use": func(c *legacyClient) {
			done := make(chan *reply, 1)
			go func() { done <- read(t, c.post(toolCall(1, "wait"))) }()
			<-steps.entered
			read(t, c.do(t.Context(), "DELETE", ""))
			if got := <-done; got.status != 404 || got.body != want {
				t.Errorf("%s, the request that ran: got status %d: %s", c.version, got.status, got.body)
			}
			<-steps.ended
		},
	}
	for _, version := range legacyVersions {
		for how, lose := range lose {
			c := &legacyClient{TB: t, ts: lasting, client: lasting.Client(), version: version, bearer: "ann"}
			c.initialize()
			lose(c)
			for name, request := range map[string][]string{
				"request":      {"POST", toolCall(1, "echo")},
				"initialize":   {"POST", initializeBody(version)},
				"batch":        {"POST", `[` + pingRequest(1) + `,` + pingRequest(2) + `]`},
				"notification": {"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
				"answer":       {"POST", `{"jsonrpc":"2.0","id":1,"result":{}}`},
				"GET":          {"GET", ""},
				"resume":       {"GET", "", "Last-Event-ID", "t-1-1"},
				"DELETE":       {"DELETE", ""},
			} {
				got := read(t, c.do(t.Context(), request[0], request[1], request[2:]...))
				if got.status != 404 || got.body != want || got.header.Get("Content-Type") != "application/json" {
					t.Errorf("%s, %s session, %s: got status %d: %s", version, how, name, got.status, got.body)
				}
			}
		}
	}
}
