package bearer_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server"
	"github.com/rondo-mcp/rondo/server/bearer"
	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
	"github.com/rondo-mcp/rondo/server/serverhttp"
)

// The server's tool needs a scope. A real issuer's URL suffices, because the keys are fetched.
func Example() {
	issuer := bearertest.NewIssuer("https://login.example.com")
	guard, err := bearer.New(bearer.Options{
		Resource: "https://mcp.example.com/mcp",
		Issuers:  []bearer.Issuer{issuer.Trusted()},
		Scopes:   []string{"files:read"},
	})
	if err != nil {
		log.Fatal(err)
	}
	srv, err := server.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	server.AddRawTool(srv, server.Tool{Name: "delete", Scopes: []string{"files:write"}},
		func(_ context.Context, call *server.ToolCall) (protocol.CallToolOutcome, error) {
			return server.Text("deleted for " + call.Principal.Subject), nil
		})
	endpoint, err := serverhttp.New(srv, &serverhttp.Options{Authority: guard})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", endpoint)
	path, metadata := guard.Metadata()
	mux.Handle(path, metadata)

	for _, scopes := range [][]string{nil, {"files:read"}, {"files:read", "files:write"}} {
		token := "" // the user is not logged in
		if scopes != nil {
			token = issuer.Issue(bearertest.Token{
				Subject: "ann", Audience: "https://mcp.example.com/mcp", Scopes: scopes})
		}
		fmt.Println(callDelete(mux, token))
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	fmt.Println(w.Body)
	// Output:
	// 401 Bearer scope="files:read", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	// 403 Bearer error="insufficient_scope", error_description="more scopes are needed", scope="files:read files:write", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
	// 200
	// {"resource":"https://mcp.example.com/mcp","authorization_servers":["https://login.example.com"],"scopes_supported":["files:read"],"bearer_methods_supported":["header"]}
}

// RequireBearer protects another handler of the host, which reads a claim that the issuer adds.
func ExampleResourceServer_RequireBearer() {
	issuer := bearertest.NewIssuer("https://login.example.com")
	guard, err := bearer.New(bearer.Options{
		Resource: "https://mcp.example.com/mcp",
		Issuers:  []bearer.Issuer{issuer.Trusted()},
	})
	if err != nil {
		log.Fatal(err)
	}
	downloads := guard.RequireBearer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			token, _ := bearer.TokenFrom(r.Context())
			var tenant string
			if ok, err := token.Claim("tenant", &tenant); !ok || err != nil {
				http.Error(w, "the token names no tenant", http.StatusForbidden)
				return
			}
			fmt.Fprintf(w, "the files of %s for %s", tenant, token.Subject)
		}), "files:read")

	r := httptest.NewRequest("GET", "https://mcp.example.com/downloads", nil)
	r.Header.Set("Authorization", "Bearer "+issuer.Issue(bearertest.Token{
		Subject: "ann", Audience: "https://mcp.example.com/mcp", Scopes: []string{"files:read"},
		Claims: map[string]any{"tenant": "acme"}}))
	w := httptest.NewRecorder()
	downloads.ServeHTTP(w, r)
	fmt.Println(w.Code, w.Body)
	// Output: 200 the files of acme for ann
}

// This issuer's opaque tokens are introspected.
func ExampleIntrospection() {
	guard, err := bearer.New(bearer.Options{
		Resource: "https://mcp.example.com/mcp",
		Issuers: []bearer.Issuer{{
			URL: "https://login.example.com",
			Introspection: &bearer.Introspection{
				URL:      "https://login.example.com/introspect",
				ClientID: "mcp-server", ClientSecret: "from a file or the environment",
			},
		}},
		Implies: func(have, need string) bool { // files includes files:read and files:write
			return strings.HasPrefix(need, have+":")
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	path, _ := guard.Metadata()
	fmt.Println(path)
	// Output: /.well-known/oauth-protected-resource/mcp
}

// callDelete calls the tool and returns the status and the challenge.
func callDelete(h http.Handler, token string) string {
	var authorization []string
	if token != "" {
		authorization = []string{"Bearer " + token}
	}
	response, _ := post(h, false, "delete", "", authorization...)
	return strings.TrimSpace(fmt.Sprint(response.StatusCode, " ",
		response.Header.Get("WWW-Authenticate")))
}
