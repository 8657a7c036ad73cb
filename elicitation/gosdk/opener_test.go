package gosdk_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
)

// TestASessionIsThatOfItsPrincipal: whoever knows the id of another principal's session can neither
// end it nor speak in it, also where the host knows its users in another way than by tokens.
func TestASessionIsThatOfItsPrincipal(t *testing.T) {
	router, err := elicitation.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server,
		&gosdk.Options{Principal: headerAsPrincipal})
	if err != nil {
		t.Fatal(err)
	}
	g := &upstreamGateway{gateway: &gateway{router: router,
		url: serveDownstream(t, clients, server)}, server: server}
	alice := g.user(t, "alice", nil)
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		for _, user := range []string{"bob", ""} {
			r, err := http.NewRequestWithContext(t.Context(), method, g.url, strings.NewReader(
				`{"jsonrpc":"2.0","id":"1","result":{"action":"accept","content":{}}}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Session-Id", alice.ID())
			r.Header.Set(userHeader, user)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusForbidden {
				t.Errorf("%s of %q: got %d, want 403", method, user, response.StatusCode)
			}
		}
	}
	if _, err := alice.ListTools(t.Context(), nil); err != nil {
		t.Errorf("alice afterwards: %v", err)
	}
}
