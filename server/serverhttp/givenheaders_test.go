package serverhttp_test

import (
	"io"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A proxy may authorize by Mcp-Method, Mcp-Name or Mcp-Param-*, though legacy revisions lack them.
func TestLegacyHeadersAgreeWithBody(t *testing.T) {
	srv, _ := legacyServer(t, nil)
	addMirrored(srv)
	stateful, _ := serve(t, srv, nil)
	stateless, _ := serve(t, srv, &serverhttp.Options{StatelessLegacy: true})
	const (
		list    = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		read1   = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://a"}}`
		run     = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run","arguments":{"region":"eu"}}}`
		unnamed = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}`
		note    = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		answer  = `{"jsonrpc":"2.0","id":9,"result":{}}`
	)
	tests := []struct {
		name, body string
		header     []string
		status     int
		code       int64
	}{
		{"method", toolCall(1, "echo"), []string{"Mcp-Method", "tools/call"}, 200, 0},
		{"method and name", toolCall(1, "echo"),
			[]string{"Mcp-Method", "tools/call", "Mcp-Name", "echo"}, 200, 0},
		{"encoded name", toolCall(1, "wörk"), []string{"Mcp-Name", "=?base64?d8O2cms=?="}, 200, 0},
		{"URI", read1, []string{"Mcp-Method", "resources/read", "Mcp-Name", "test://a"}, 200, 0},
		{"name where there is none", list, []string{"Mcp-Name", "echo"}, 200, 0},
		{"notification", note, []string{"Mcp-Method", "notifications/initialized"}, 202, 0},
		{"argument", run, []string{"Mcp-Param-Region", "eu"}, 200, 0},
		{"no argument", run, nil, 200, 0},

		{"another method", toolCall(1, "echo"), []string{"Mcp-Method", "tools/list"}, 400, -32600},
		{"empty method", toolCall(1, "echo"), []string{"Mcp-Method", " "}, 400, -32600},
		{"another name", toolCall(1, "echo"), []string{"Mcp-Name", "safe"}, 400, -32600},
		{"name that cannot be decoded", toolCall(1, "echo"), []string{"Mcp-Name", "=?base64?%%?="},
			400, -32600},
		{"another URI", read1, []string{"Mcp-Name", "test://b"}, 400, -32600},
		{"no name in the body", unnamed, []string{"Mcp-Name", "echo"}, 400, -32600},
		{"a request's method on an answer", answer, []string{"Mcp-Method", "tools/list"}, 400,
			-32600},
		{"another argument", run, []string{"Mcp-Param-Region", "us"}, 200, -32602},
		{"two of an argument", run, []string{"Mcp-Param-Region", "eu", "Mcp-Param-Region+", "us"},
			200, -32602},
		{"two methods", toolCall(1, "echo"),
			[]string{"Mcp-Method", "tools/call", "Mcp-Method+", "tools/list"}, 400, -32600},

		{"batch with another method", `[` + list + `,` + toolCall(2, "echo") + `]`,
			[]string{"Mcp-Method", "tools/list"}, 400, -32600},
		{"batch with another name", `[` + toolCall(1, "echo") + `,` + toolCall(2, "notify") + `]`,
			[]string{"Mcp-Name", "echo"}, 400, -32600},
		{"batch with an answer", `[` + list + `,` + answer + `]`,
			[]string{"Mcp-Method", "tools/list"}, 400, -32600},
	}
	for _, version := range legacyVersions {
		clients := map[string]*legacyClient{
			"session":   openSession(t, stateful, version),
			"stateless": openSession(t, stateless, version),
		}
		for mode, c := range clients {
			for _, tt := range tests {
				if strings.HasPrefix(tt.name, "batch") && version != "2025-03-26" {
					continue
				}
				t.Run(version+", "+mode+", "+tt.name, func(t *testing.T) {
					r := newRequest(t, c.ts, "POST", c.header("MCP-Protocol-Version", version),
						tt.body)
					for i := 0; i < len(tt.header); i += 2 {
						r.Header.Add(strings.TrimSuffix(tt.header[i], "+"), tt.header[i+1])
					}
					got := send(t, c.ts, r)
					wantRefusal(t, "the answer", got, tt.status, tt.code)
				})
			}
		}
	}
}

// Contradicting headers refuse the whole batch, in any order.
func TestLegacyHeadersExecuteNothing(t *testing.T) {
	c, _, steps := startSession(t, "2025-03-26")
	for _, batch := range []string{
		`[` + toolCall(1, "wait") + `,` + pingRequest(2) + `]`,
		`[` + pingRequest(2) + `,` + toolCall(1, "wait") + `]`,
	} {
		wantStatus(t, "the answer", read(t, c.post(batch, "Mcp-Method", "ping")), 400)
	}
	if n := len(steps.entered); n > 0 {
		t.Errorf("%d calls were executed", n)
	}
	response := c.post(`[`+toolCall(1, "echo")+`,`+toolCall(2, "echo")+`]`, "Mcp-Method",
		"tools/call", "Mcp-Name", "echo")
	text, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || response.StatusCode != 200 || len(ids(t, string(text))) != 2 {
		t.Errorf("a batch that agrees: got status %d: %s", response.StatusCode, text)
	}
}

// An error quotes at most 64 bytes of client input and marks the cut.
func TestLongHeadersAreCut(t *testing.T) {
	ts, _ := serve(t, newServer(t, nil), nil)
	for n, want := range map[int]string{
		64: `"` + strings.Repeat("n", 64) + `"`,
		65: `"` + strings.Repeat("n", 64) + `…"`,
	} {
		h := headers("tools/call", strings.Repeat("n", n))
		got := do(t, ts, "POST", h, body("tools/call", `"name":"echo","arguments":{"message":"hi"}`))
		if got.code() != -32020 || !strings.Contains(got.Error.Message, want+",") {
			t.Errorf("%d bytes: got %s, want %s in it", n, got.body, want)
		}
	}
}
