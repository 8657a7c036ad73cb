package mcpgo_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/rondo-mcp/rondo/elicitation"
	"github.com/rondo-mcp/rondo/elicitation/mcpgo"
	"github.com/rondo-mcp/rondo/internal/testing/gatewaytest"
	"github.com/rondo-mcp/rondo/protocol"
)

// TestAnImpatientUser harms no other on the connections that they share.
func TestAnImpatientUser(t *testing.T) { gatewaytest.AcceptImpatience(t, buildUpstream) }

// TestManyPendingCalls: on one connection each call gets its own answer, and leaves nothing.
func TestManyPendingCalls(t *testing.T) { gatewaytest.AcceptPending(t, buildUpstream) }

type userKey struct{}

// authenticated serves a gateway whose users are who they say they are.
func authenticated(t *testing.T, gateway http.Handler) (url string) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), userKey{}, r.Header.Get("X-User"))
		gateway.ServeHTTP(w, r.WithContext(ctx))
	}))
	t.Cleanup(served.Close)
	return served.URL + "/mcp"
}

func as(user string) http.Header { return http.Header{"X-User": {user}} }

// TestSessionsOfOthers: who authenticates as another, or as nobody, cannot use a session.
func TestSessionsOfOthers(t *testing.T) {
	build := func(t *testing.T, router *elicitation.Router, up *gatewaytest.Upstream) string {
		return authenticated(t, buildUpstream(t, router, up, false))
	}
	gatewaytest.AcceptOwners(t, build, as("alice"), as("mallory"))
	gatewaytest.AcceptOwners(t, build, as("alice"), nil)
}

// TestConnectionsPerPrincipal: a server that asks late asks nobody else.
func TestConnectionsPerPrincipal(t *testing.T) {
	build := func(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream) string {
		handler, _ := newUpstreamBefore(t, router, raw, true,
			func(opts *mcpgo.UpstreamOptions) { opts.PerPrincipal = true })
		return authenticated(t, handler)
	}
	gatewaytest.AcceptPerPrincipal(t, build, as("alice"), as("bob"))
}

// TestCloseWhileConnecting waits for nobody.
func TestCloseWhileConnecting(t *testing.T) {
	gatewaytest.AcceptClose(t, func(t *testing.T, router *elicitation.Router,
		raw *gatewaytest.Upstream) (http.Handler, func()) {
		handler, up := newUpstreamBefore(t, router, raw, false)
		return handler, up.Close
	})
}

// buildUpstream returns a gateway before one Upstream.
func buildUpstream(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream,
	lines bool) http.Handler {
	t.Helper()
	handler, _ := newUpstreamBefore(t, router, raw, lines)
	return handler
}

// newUpstreamBefore returns a gateway before a server that writes its messages itself.
func newUpstreamBefore(t *testing.T, router *elicitation.Router, raw *gatewaytest.Upstream,
	lines bool, change ...func(*mcpgo.UpstreamOptions)) (http.Handler, *mcpgo.Upstream) {
	t.Helper()
	s := server.NewMCPServer("gateway", "1", server.WithElicitation())
	clients, err := mcpgo.NewDownstream(router, s, &mcpgo.Options{
		Principal: func(ctx context.Context) protocol.Principal {
			user, _ := ctx.Value(userKey{}).(string)
			return protocol.Principal{Subject: user}
		}})
	if err != nil {
		t.Fatal(err)
	}
	open := overHTTP(t, raw.URL,
		transport.WithHTTPBasicClient(mcpgo.HTTPClient(raw.HTTPClient)))
	if lines {
		open = overRawLines(t, raw)
	}
	opts := mcpgo.UpstreamOptions{Name: "up",
		Transport: func() (transport.Interface, error) { return open(), nil }}
	for _, f := range change {
		f(&opts)
	}
	up, err := clients.NewUpstream(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	for _, name := range []string{gatewaytest.ToolAsk, gatewaytest.ToolPlain} {
		s.AddTool(mcp.NewTool(name), func(ctx context.Context,
			r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return up.CallTool(ctx, r, name)
		})
	}
	return clients.Handler(server.NewStreamableHTTPServer(s, quiet)), up
}
