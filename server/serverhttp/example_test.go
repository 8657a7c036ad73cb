package serverhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// A server with one tool, and a client's call.
func Example() {
	srv, err := server.New(&server.Options{Info: protocol.Implementation{Name: "greeter",
		Version: "1.0.0"}})
	if err != nil {
		panic(err)
	}
	type input struct {
		Name string `json:"name"`
	}
	server.AddTool(srv, server.Tool{Name: "greet"},
		func(_ context.Context, _ *server.ToolCall, in input) (protocol.CallToolOutcome, error) {
			return server.Text("hello, " + in.Name), nil
		})
	handler, err := serverhttp.New(srv, nil)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)

	ts := httptest.NewServer(mux) // in a program: http.Server
	defer ts.Close()
	request, err := http.NewRequest("POST", ts.URL+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+
		`"name":"greet","arguments":{"name":"Ann"},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("MCP-Protocol-Version", "2026-07-28")
	request.Header.Set("Mcp-Method", "tools/call")
	request.Header.Set("Mcp-Name", "greet")
	response, err := ts.Client().Do(request)
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		panic(err)
	}
	fmt.Println(response.Status)
	fmt.Println(string(answer))
	// Output:
	// 200 OK
	// {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"hello, Ann"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"greeter","version":"1.0.0"}}}}
}

// Clients without a token are told where to get one.
func ExampleAuthError() {
	srv, err := server.New(nil)
	if err != nil {
		panic(err)
	}
	h, err := serverhttp.New(srv, &serverhttp.Options{
		Authenticate: func(r *http.Request) (protocol.Principal, error) {
			// in a program: validate the token
			if r.Header.Get("Authorization") != "Bearer secret" {
				return protocol.Principal{}, &serverhttp.AuthError{
					Status:    http.StatusUnauthorized,
					Challenge: `Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"`,
				}
			}
			return protocol.Principal{Issuer: "https://issuer.example.com", Subject: "ann"}, nil
		},
	})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/mcp", strings.NewReader("{}")))
	fmt.Println(w.Code, w.Header().Get("WWW-Authenticate"))
	fmt.Println(w.Body)
	// Output:
	// 401 Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"
	// {"jsonrpc":"2.0","error":{"code":-32600,"message":"Unauthorized"}}
}
