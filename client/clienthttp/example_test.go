package clienthttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/rondo-mcp/rondo/client"
	"github.com/rondo-mcp/rondo/client/clienthttp"
	"github.com/rondo-mcp/rondo/protocol"
)

func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Method, r.Header.Get("Mcp-Method"), r.Header.Get("Mcp-Name"),
			r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(
			w,
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"pong"}]}}`,
		)
	}))
	defer server.Close()

	transport, err := clienthttp.New(server.URL, &clienthttp.Options{
		Header: http.Header{"Authorization": {"Bearer token"}},
	})
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
	// POST tools/call ping Bearer token
	// pong
}
