package clienthttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

// A demoAuthorizer counts its tokens. Package client/oauth has real authorizers.
type demoAuthorizer struct {
	mu    sync.Mutex
	token int
}

func (a *demoAuthorizer) Credentials(context.Context, clienthttp.Outgoing) (http.Header, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return http.Header{"Authorization": {a.header()}}, nil
}

func (a *demoAuthorizer) Refused(_ context.Context, r clienthttp.Refusal) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Sent.Get("Authorization") == a.header() { // else another call has renewed the token
		a.token++
	}
	fmt.Println(r)
	return true, nil
}

func (a *demoAuthorizer) header() string { return fmt.Sprint("Bearer ", a.token) }

func ExampleAuthorizer() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer 1" {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",`+
			`"content":[{"type":"text","text":"pong"}]}}`)
	}))
	defer server.Close()

	transport, err := clienthttp.New(server.URL, &clienthttp.Options{Authorizer: &demoAuthorizer{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// The server of this example does not know server/discover.
	c, err := client.New(transport, &client.Options{Era: protocol.Modern})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	result, err := c.CallTool(context.Background(), "ping", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*protocol.TextContent).Text)
	// Output:
	// POST tools/call "ping": 401, attempt 1
	// pong
}
