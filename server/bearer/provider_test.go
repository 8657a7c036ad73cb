package bearer_test

import (
	"fmt"
	"log"

	"github.com/rondo-mcp/rondo/server/bearer"
)

// An issuer that has its scopes in a claim of its own.
func ExampleIssuer() {
	auth0 := bearer.Issuer{
		URL: "https://tenant.eu.auth0.com/", // with its slash, as in the tokens
		ScopesOf: func(t *bearer.Token) ([]string, error) {
			var permissions []string
			_, err := t.Claim("permissions", &permissions)
			return append(permissions, t.Scopes...), err
		},
	}
	guard, err := bearer.New(bearer.Options{Resource: "https://mcp.example.com/mcp",
		Issuers: []bearer.Issuer{auth0}})
	if err != nil {
		log.Fatal(err)
	}
	path, _ := guard.Metadata()
	fmt.Println(path)
	// Output: /.well-known/oauth-protected-resource/mcp
}
