package hosted_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/hosted"
)

// A server made for each request lists only what that caller may use.
func TestMirroredHeadersAreCheckedForEachCaller(t *testing.T) {
	source := func(_ context.Context, caller *hosted.Caller) (hosted.Peer, error) {
		name := caller.Header.Get("X-Tool")
		return &fake{answers: map[string]handler{
			protocol.MethodListTools: always(`{"tools":[{"name":"` + name +
				`","inputSchema":{"type":"object","properties":{"owner":{"type":"string",` +
				`"x-mcp-header":"Owner"}}}}]}`),
			name: always(textResult("ran")),
		}}, nil
	}
	for _, perRequest := range []bool{true, false} {
		h, err := hosted.New(source, &hosted.Options{PerRequest: perRequest,
			Server: server.Options{Info: protocol.Implementation{Name: "each"}}})
		noError(t, err)
		handler, err := h.Handler(nil)
		noError(t, err)
		kept := hosted.KeepHeaders(handler, "X-Tool")
		for _, tool := range []string{"a", "b"} {
			for owner, want := range map[string]string{"ann": "ran", "bob": "-32020",
				"": "-32020"} {
				if got := post(kept, tool, owner); !strings.Contains(got, want) {
					t.Errorf("%s with the header %q: got %s, want %s", tool, owner, got, want)
				}
			}
		}
		_ = h.Close()
	}
}

// post calls a tool of revision 2026-07-28 as the user ann, with owner in the owner header.
func post(handler http.Handler, tool, owner string) string {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
			`","arguments":{"owner":"ann"},"_meta":{`+
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
	for name, value := range map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": "tools/call", "Mcp-Name": tool, "X-Tool": tool} {
		r.Header.Set(name, value)
	}
	if owner != "" {
		r.Header.Set("Mcp-Param-Owner", owner)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Result().Body)
	return string(body)
}
