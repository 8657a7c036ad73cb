package gosdk_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/testing/pipehttp"
)

// TestAnImpatientUser harms no other on the connections that they share.
func TestAnImpatientUser(t *testing.T) { gatewaytest.AcceptImpatience(t, buildUpstream) }

// TestManyPendingCalls: on one connection each call gets its own answer, and leaves nothing.
func TestManyPendingCalls(t *testing.T) { gatewaytest.AcceptPending(t, buildUpstream) }

// TestCloseWhileConnecting waits for nobody.
func TestCloseWhileConnecting(t *testing.T) {
	gatewaytest.AcceptClose(t, func(t *testing.T, router *elicitation.Router,
		raw *gatewaytest.Upstream) (http.Handler, func()) {
		handler, up := newRawGateway(t, router, raw, false)
		return handler, up.Close
	})
}

// TestConnectionsPerPrincipal: a server that asks late asks nobody else.
func TestConnectionsPerPrincipal(t *testing.T) {
	build := func(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream) string {
		handler, _ := newRawGateway(t, router, raw, true,
			func(opts *gosdk.UpstreamOptions) { opts.PerPrincipal = true })
		served := httptest.NewServer(auth.RequireBearerToken(believe, nil)(handler))
		t.Cleanup(served.Close)
		return served.URL
	}
	as := func(user string) http.Header { return http.Header{"Authorization": {"Bearer " + user}} }
	gatewaytest.AcceptPerPrincipal(t, build, as("alice"), as("bob"))
}

// buildUpstream returns a gateway before one Upstream.
func buildUpstream(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream,
	lines bool) http.Handler {
	t.Helper()
	handler, _ := newRawGateway(t, router, raw, lines)
	return handler
}

// newRawGateway is a gateway before one Upstream that writes its messages itself.
func newRawGateway(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream,
	lines bool, change ...func(*gosdk.UpstreamOptions)) (http.Handler, *gosdk.Upstream) {
	t.Helper()
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	opts := gosdk.UpstreamOptions{Name: "up", Implementation: impl,
		Transport: func() mcp.Transport {
			if !lines {
				return &mcp.StreamableClientTransport{Endpoint: raw.URL, HTTPClient: raw.HTTPClient}
			}
			r, w := pipehttp.ServeLines(t, func(ctx context.Context, in io.Reader, out io.Writer) {
				raw.Serve(ctx, in, out)
			})
			return &mcp.IOTransport{Reader: r, Writer: w}
		}}
	for _, f := range change {
		f(&opts)
	}
	up, err := clients.NewUpstream(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	for _, name := range []string{gatewaytest.ToolAsk, gatewaytest.ToolPlain} {
		server.AddTool(tool(name), func(ctx context.Context,
			req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return up.CallTool(ctx, req, name)
		})
	}
	return clients.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, nil)), up
}
