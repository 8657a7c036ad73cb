package gosdk_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/gosdk"
	"github.com/rondo-mcp/rondo/internal/gatewaytest"
	"github.com/rondo-mcp/rondo/internal/linetest"
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

// buildUpstream returns a gateway before one Upstream.
func buildUpstream(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream,
	lines bool) http.Handler {
	t.Helper()
	handler, _ := newRawGateway(t, router, raw, lines)
	return handler
}

// newRawGateway is a gateway before one Upstream that writes its messages itself.
func newRawGateway(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream,
	lines bool) (http.Handler, *gosdk.Upstream) {
	t.Helper()
	server := mcp.NewServer(impl, nil)
	clients, err := gosdk.NewDownstream(router, server, nil)
	if err != nil {
		t.Fatal(err)
	}
	up, err := clients.NewUpstream(gosdk.UpstreamOptions{Name: "up", Implementation: impl,
		Transport: func() mcp.Transport {
			if !lines {
				return &mcp.StreamableClientTransport{Endpoint: raw.URL, HTTPClient: raw.HTTPClient}
			}
			r, w := linetest.Serve(t, func(ctx context.Context, in io.Reader, out io.Writer) {
				raw.Serve(ctx, in, out)
			})
			return &mcp.IOTransport{Reader: r, Writer: w}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	server.AddTool(tool(gatewaytest.ToolAsk), upstreamTool(up))
	return clients.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, nil)), up
}
