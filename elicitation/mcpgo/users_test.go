package mcpgo_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/gatewaytest"
)

// TestAnImpatientUser harms no other on the connections that they share.
func TestAnImpatientUser(t *testing.T) { gatewaytest.AcceptImpatience(t, buildUpstream) }

// TestManyPendingCalls: on one connection each call gets its own answer, and leaves nothing.
func TestManyPendingCalls(t *testing.T) { gatewaytest.AcceptPending(t, buildUpstream) }

// buildUpstream returns a gateway before one Upstream.
func buildUpstream(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream,
	lines bool) http.Handler {
	t.Helper()
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	open := overHTTP(t, raw.URL,
		transport.WithHTTPBasicClient(mcpgo.HTTPClient(raw.HTTPClient)))
	if lines {
		open = overRawLines(t, raw)
	}
	up, err := clients.NewUpstream(mcpgo.UpstreamOptions{Name: "up",
		Transport: func() (transport.Interface, error) { return open(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	s.AddTool(mcp.NewTool(gatewaytest.ToolAsk), func(ctx context.Context,
		r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return up.CallTool(ctx, r, gatewaytest.ToolAsk)
	})
	return clients.Handler(server.NewStreamableHTTPServer(s, quiet))
}
