package serverhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A demoAuthority knows two tokens. A real authority verifies them; see package server/bearer.
type demoAuthority struct{}

const metadata = `resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"`

func (demoAuthority) Identify(r *http.Request) (serverhttp.Identity, error) {
	scopes := map[string][]string{
		"Bearer reader": {"files:read"}, "Bearer writer": {"files:read", "files:write"},
	}[r.Header.Get("Authorization")]
	if scopes == nil {
		return serverhttp.Identity{}, &serverhttp.AuthError{Challenge: "Bearer " + metadata}
	}
	return serverhttp.Identity{
		Principal: protocol.Principal{Issuer: "https://issuer.example.com", Subject: "ann"},
		Access:    &server.Access{Scopes: scopes},
	}, nil
}

func (demoAuthority) Challenge(_ serverhttp.Identity,
	lack *server.ScopeError) *serverhttp.AuthError {
	return &serverhttp.AuthError{Status: http.StatusForbidden, Challenge: fmt.Sprintf(
		`Bearer error="insufficient_scope", scope=%q, %s`, strings.Join(lack.Need, " "), metadata)}
}

func ExampleAuthority() {
	srv, err := server.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	server.AddRawTool(srv, server.Tool{Name: "delete", Scopes: []string{"files:write"}},
		func(context.Context, *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("deleted"), nil
		})
	h, err := serverhttp.New(srv, &serverhttp.Options{Authority: demoAuthority{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, token := range []string{"nobody", "reader", "writer"} {
		r := httptest.NewRequest("POST", "http://localhost/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete","_meta":{`+
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
		r.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"},
			"Mcp-Name": {"delete"}, "Authorization": {"Bearer " + token},
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	}
	// Output:
	// 401 Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"
	// 403 Bearer error="insufficient_scope", scope="files:write", resource_metadata="https://example.com/.well-known/oauth-protected-resource/mcp"
	// 200
}
