package mcpgo_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// callAsking has a client that prefers revision 2026-07-28 call a tool that asks, and returns the
// result or the error.
func callAsking(t *testing.T, over transport.Interface) string {
	t.Helper()
	c := client.NewClient(over, client.WithProtocolVersion(modern),
		client.WithElicitationHandler(accept("r")))
	if err := start(t, c); err != nil {
		t.Fatal(err)
	}
	var r mcp.CallToolRequest
	r.Params.Name = gatewaytest.ToolAsk
	r.Params.Arguments = map[string]any{"question": json.RawMessage(question)}
	got, err := c.CallTool(within(t), r)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(got.Content)
}

// TestModernClientsFallBack to a session, in which they are asked, over HTTP with and without the
// handler of the gateway, and over lines.
func TestModernClientsFallBack(t *testing.T) {
	over := map[string]func(*mcpgo.Downstream, *server.MCPServer) transport.Interface{
		"HTTP": func(clients *mcpgo.Downstream, s *server.MCPServer) transport.Interface {
			down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
			t.Cleanup(down.Close)
			return overHTTP(t, down.URL)()
		},
		"HTTP without the handler": func(_ *mcpgo.Downstream,
			s *server.MCPServer) transport.Interface {
			down := httptest.NewServer(server.NewStreamableHTTPServer(s, quiet))
			t.Cleanup(down.Close)
			return overHTTP(t, down.URL)()
		},
		"lines": func(clients *mcpgo.Downstream, s *server.MCPServer) transport.Interface {
			r, w := pipehttp.ServeLines(t, listen(clients, s))
			return transport.NewIO(r, w, io.NopCloser(strings.NewReader("")))
		},
	}
	for name, connect := range over {
		t.Run(name, func(t *testing.T) {
			clients, s := newLoggedGateway(t, newRouter(t, nil), gatewaytest.NewUpstream(t),
				gatewaytest.SharedHTTP)
			if got := callAsking(t, connect(clients, s)); !strings.Contains(got, `"reason":"r"`) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// TestModernClientsReadTheRevisions that have sessions, with the code of the specification.
func TestModernClientsReadTheRevisions(t *testing.T) {
	clients, s := newLoggedGateway(t, newRouter(t, nil), gatewaytest.NewUpstream(t),
		gatewaytest.SharedHTTP)
	r, w := pipehttp.ServeLines(t, listen(clients, s))
	const meta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`
	for _, method := range []string{"server/discover", "tools/call", "initialize"} {
		_, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":%s}}`+"\n",
			method, meta)
		if err != nil {
			t.Fatal(err)
		}
		_, got := readError(t, bufio.NewReader(r))
		if !strings.Contains(got, `"code":-32022`) || !strings.Contains(got, `"2025-11-25"`) ||
			strings.Count(got, modern) != 2 { // as the one that was requested
			t.Errorf("%s: got %s", method, got)
		}
	}
}

// TestModernClientsThatAreServed cannot be asked, and read that and no other cause.
func TestModernClientsThatAreServed(t *testing.T) {
	for name, test := range map[string]struct{ url, version, want string }{
		"an older upstream": {gatewaytest.NewLibrary(t).URL, legacy, "-32601"},
		"a modern upstream": {newModernUpstream(t), modern,
			"The client cannot be asked what the upstream server asks"},
	} {
		t.Run(name, func(t *testing.T) {
			s := server.NewMCPServer("gateway", "1", server.WithElicitation())
			clients, err := mcpgo.NewDownstream(newRouter(t, nil), s,
				&mcpgo.Options{ServeModern: true})
			if err != nil {
				t.Fatal(err)
			}
			up, err := clients.NewUpstream(mcpgo.UpstreamOptions{
				Name: "up", Unprefixed: []string{gatewaytest.ToolAsk},
				ProtocolVersion: test.version,
				Transport: func(string) (transport.Interface, error) {
					return overHTTP(t, test.url)(), nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(up.Close)
			if err := up.Publish(t.Context()); err != nil {
				t.Fatal(err)
			}
			down := httptest.NewServer(clients.Handler(server.NewStreamableHTTPServer(s, quiet)))
			t.Cleanup(down.Close)
			got := callAsking(t, overHTTP(t, down.URL)())
			if !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
