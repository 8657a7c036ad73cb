package bearer_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
	"github.com/rondo-mcp/rondo/server/bearer/bearertest"
)

// TestCodeOfThePage runs the code of README.md. The keys are fetched from the issuer.
func TestCodeOfThePage(t *testing.T) {
	issuer := bearertest.Start(t)
	const resource = "http://localhost/mcp"
	handler, err := newHandler(resource, issuer.URL())
	check(t, err)
	listening := httptest.NewServer(handler)
	defer listening.Close()
	call := func(scopes ...string) (string, error) {
		token := issuer.Issue(bearertest.Token{Subject: "ann", Audience: resource, Scopes: scopes})
		transport, err := clienthttp.New(listening.URL+"/mcp", &clienthttp.Options{
			Header: http.Header{"Authorization": {"Bearer " + token}}})
		if err != nil {
			return "", err
		}
		c, err := client.New(transport, nil)
		if err != nil {
			return "", err
		}
		defer c.Close()
		result, err := c.CallTool(t.Context(), "add_note", map[string]any{"text": "milk"})
		if err != nil {
			return "", err
		}
		return result.Content[0].(*protocol.TextContent).Text, nil
	}
	if got, err := call("notes:read", "notes:write"); err != nil || got != "noted for ann: milk" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := call("notes:read"); err == nil {
		t.Errorf("got %q without the scope of the tool", got)
	}
}
